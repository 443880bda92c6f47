"""The miniature world and its pictures: coloured shapes on a grid, and small bar charts.

Everything is 512 x 384 pixels; the models see it as 128 x 96, where one cell of the grid is one visual token (32 x 32).
Needs only numpy and Pillow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from PIL import Image, ImageDraw

Colour = Literal["red", "blue", "green", "yellow", "purple"]
Shape = Literal["circle", "square", "triangle", "star"]

COLOURS: tuple[Colour, ...] = ("red", "blue", "green", "yellow", "purple")
SHAPES: tuple[Shape, ...] = ("circle", "square", "triangle", "star")
ROWS, COLUMNS = 3, 4
MAX_VALUE = 9
WIDTH, HEIGHT = 512, 384

_CELL = 128
_UNIT = 32  # pixels one unit of a bar is high
_BASELINE = 376
_RGB: dict[Colour, tuple[int, int, int]] = {
    "red": (215, 40, 40),
    "blue": (40, 90, 215),
    "green": (45, 160, 70),
    "yellow": (240, 200, 40),
    "purple": (140, 60, 170),
}


@dataclass(frozen=True)
class Thing:
    """One coloured shape."""

    colour: Colour
    shape: Shape

    def __str__(self) -> str:
        return f"{self.colour} {self.shape}"


@dataclass(frozen=True)
class Grid:
    """Shapes on a grid of 3 rows and 4 columns; `None` is an empty cell. Row 0 is the top one."""

    cells: tuple[tuple[Thing | None, ...], ...]

    def things(self) -> Iterator[tuple[int, int, Thing]]:
        """Yield (row, column, thing) in reading order."""
        for row, line in enumerate(self.cells):
            for column, thing in enumerate(line):
                if thing is not None:
                    yield row, column, thing


@dataclass(frozen=True)
class Bar:
    """One bar of a chart, named by its colour; `value` is 1 to 9."""

    colour: Colour
    value: int


@dataclass(frozen=True)
class Chart:
    """A bar chart of four bars of different colours, from left to right."""

    bars: tuple[Bar, ...]

    def value(self, colour: Colour) -> int | None:
        """Return the value of the bar of that colour, or None if there is none."""
        return next((bar.value for bar in self.bars if bar.colour == colour), None)


Scene = Grid | Chart


def random_scene(rng: np.random.Generator) -> Scene:
    """Draw a scene at random: two thirds grids, one third charts."""
    return random_grid(rng) if rng.random() < 0.65 else random_chart(rng)


def random_grid(rng: np.random.Generator) -> Grid:
    """Draw 4 to 10 shapes from a palette of 2 to 5 colours and 2 to 4 shapes, so that all counts occur often."""
    colours = rng.permutation(len(COLOURS))[: rng.integers(2, 6)]
    shapes = rng.permutation(len(SHAPES))[: rng.integers(2, 5)]
    full = set(rng.permutation(ROWS * COLUMNS)[: rng.integers(4, 11)].tolist())
    cells: list[Thing | None] = [
        Thing(COLOURS[rng.choice(colours)], SHAPES[rng.choice(shapes)]) if i in full else None
        for i in range(ROWS * COLUMNS)
    ]
    return Grid(tuple(tuple(cells[row * COLUMNS : (row + 1) * COLUMNS]) for row in range(ROWS)))


def random_chart(rng: np.random.Generator) -> Chart:
    """Draw four bars of different colours with values from 1 to 9."""
    colours = rng.permutation(len(COLOURS))[:COLUMNS]
    return Chart(tuple(Bar(COLOURS[c], int(rng.integers(1, MAX_VALUE + 1))) for c in colours))


def draw_scene(scene: Scene, seed: int = 0) -> Image.Image:
    """Draw a scene as an RGB picture of 512 x 384 pixels.

    Args:
        scene: What to draw.
        seed: Varies what doesn't matter to any question: sizes, places within a cell, shades, the paper.
    """
    rng = np.random.default_rng([7, seed])
    paper = tuple(int(v) for v in 255 - rng.integers(0, 18, 3))
    picture = Image.new("RGB", (WIDTH, HEIGHT), paper)
    pen = ImageDraw.Draw(picture)
    if isinstance(scene, Grid):
        for row, column, thing in scene.things():
            size = float(rng.uniform(36, 52))
            x, y = (np.array([column, row]) + 0.5) * _CELL + rng.uniform(-8, 8, 2)
            _draw_thing(pen, thing, float(x), float(y), size, _shade(rng, thing.colour))
    else:
        _draw_chart(pen, scene, rng)
    return picture


def _shade(rng: np.random.Generator, colour: Colour) -> tuple[int, int, int]:
    red, green, blue = (int(np.clip(v + rng.integers(-22, 23), 0, 255)) for v in _RGB[colour])
    return red, green, blue


def _draw_thing(
    pen: ImageDraw.ImageDraw, thing: Thing, x: float, y: float, size: float, fill: tuple[int, int, int]
) -> None:
    if thing.shape == "circle":
        pen.ellipse((x - size, y - size, x + size, y + size), fill)
    elif thing.shape == "square":
        half = size * 0.88
        pen.rectangle((x - half, y - half, x + half, y + half), fill)
    elif thing.shape == "triangle":
        pen.polygon([(x, y - size), (x + size, y + size * 0.8), (x - size, y + size * 0.8)], fill)
    else:
        tips = []
        for i in range(10):
            radius = size * (1.15 if i % 2 == 0 else 0.46)
            angle = -math.pi / 2 + i * math.pi / 5
            tips.append((x + radius * math.cos(angle), y + radius * math.sin(angle)))
        pen.polygon(tips, fill)


def _draw_chart(pen: ImageDraw.ImageDraw, chart: Chart, rng: np.random.Generator) -> None:
    for level in range(1, MAX_VALUE + 1):
        y = _BASELINE - level * _UNIT
        pen.line((8, y, WIDTH - 8, y), (212, 212, 212), 2)
    for column, bar in enumerate(chart.bars):
        x = (column + 0.5) * _CELL + float(rng.uniform(-6, 6))
        half = float(rng.uniform(34, 46))
        pen.rectangle((x - half, _BASELINE - bar.value * _UNIT, x + half, _BASELINE), _shade(rng, bar.colour))
    pen.line((8, _BASELINE, WIDTH - 8, _BASELINE), (60, 60, 60), 4)
