"""Questions about a scene: how people word them, their true answer, and the reasoning that leads to it.

A `Query` is the meaning of a question. Asked about another scene it gives another answer and another reasoning, which
is how the training makes reasoning that is consistent but wrong. Questions about charts: `chart_questions.py`.
"""

# ruff: noqa: D102 (what the methods are for stands in `Query`)

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Literal, Protocol

from mai_servers.tiny.drawing import COLOURS, COLUMNS, MAX_VALUE, ROWS, SHAPES, Colour, Grid, Scene, Shape, Thing

Side = Literal["left", "right"]
Aspect = Literal["colour", "shape"]


class Query(Protocol):
    """The meaning of one question."""

    def wordings(self) -> Sequence[str]:
        """Return ways to ask it, in British spelling, capitalised and with a question mark."""

    def answer(self, scene: Scene) -> str | None:
        """Return the true answer, or None where the question makes no sense about the scene."""

    def steps(self, scene: Scene) -> str:
        """Return the reasoning up to the answer; only defined where `answer` isn't None.

        It first repeats what is asked, so that all that follows can be read off what stands near.
        """

    def alternatives(self) -> Sequence[str]:
        """Return all answers that such a question can have, for multiple choice."""


NUMBERS = tuple(str(n) for n in range(MAX_VALUE + 1))
YES_NO = ("yes", "no")
ORDINALS = ("first", "second", "third", "fourth")
_EDGES = ("top", "middle", "bottom")


@dataclass(frozen=True)
class Group:
    """All shapes of a colour, of a form, or of both."""

    colour: Colour | None = None
    shape: Shape | None = None

    @property
    def plural(self) -> str:
        """Its name, e.g. "red circles", "red shapes" or "circles"."""
        return f"{self.colour} {self.shape or 'shape'}s" if self.colour else f"{self.shape}s"

    @property
    def label(self) -> str:
        """Its shortest name, e.g. "red" or "circles"."""
        return self.colour or self.plural

    def holds(self, thing: Thing | None) -> bool:
        """Tell whether a thing belongs to the group."""
        return thing is not None and self.colour in (None, thing.colour) and self.shape in (None, thing.shape)

    def count(self, grid: Grid) -> int:
        """Count its members."""
        return sum(self.holds(thing) for _, _, thing in grid.things())


_SIMPLE_GROUPS = tuple(Group(colour=c) for c in COLOURS) + tuple(Group(shape=s) for s in SHAPES)
_PAIRS = tuple(Group(c, s) for c in COLOURS for s in SHAPES)


def _rows(grid: Grid, mark: Callable[[Thing, int], str] = lambda _thing, _row: "") -> str:
    """Describe a grid in reading order; `mark` is called for each thing and its row, and what it returns put behind."""
    rows = []
    for i, row in enumerate(grid.cells):
        cells = ["empty" if thing is None else f"{thing}{mark(thing, i)}" for thing in row]
        rows.append(f"Row {i + 1}: {', '.join(cells)}.")
    return " ".join(rows)


def _counting(*groups: Group) -> Callable[[Thing, int], str]:
    """Mark each member of the groups with how many have been seen so far."""
    seen = dict.fromkeys(groups, 0)

    def mark(thing: Thing, _row: int) -> str:
        for group in groups:
            if group.holds(thing):
                seen[group] += 1
                return f" ({seen[group]})" if len(groups) == 1 else f" ({group.label}: {seen[group]})"
        return ""

    return mark


def _only(scene: Scene, group: Group) -> tuple[int, int, Thing] | None:
    found = [item for item in scene.things() if group.holds(item[2])] if isinstance(scene, Grid) else []
    return found[0] if len(found) == 1 else None


def _aspect(thing: Thing, aspect: Aspect) -> str:
    return thing.colour if aspect == "colour" else thing.shape


@dataclass(frozen=True)
class Count:
    """How many shapes of a group are there?"""

    group: Group

    def wordings(self) -> Sequence[str]:
        g = self.group.plural
        return (
            f"How many {g} are there?",
            f"How many {g} are in the picture?",
            f"How many {g} do you see?",
            f"Count the {g}.",
            f"What is the number of {g}?",
            f"How many {g} can you see?",
        )

    def answer(self, scene: Scene) -> str | None:
        return str(self.group.count(scene)) if isinstance(scene, Grid) else None

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Grid)
        rows = _rows(scene, _counting(self.group))
        return f"Which are {self.group.plural}? {rows} The number is {self.answer(scene)}."

    def alternatives(self) -> Sequence[str]:
        return NUMBERS[:8]


@dataclass(frozen=True)
class Exists:
    """Is there a red circle?"""

    group: Group

    def wordings(self) -> Sequence[str]:
        name = self.group.plural.removesuffix("s")
        return (
            f"Is there a {name}?",
            f"Is there a {name} in the picture?",
            f"Do you see a {name}?",
            f"Does the picture show a {name}?",
            f"Are there any {self.group.plural}?",
        )

    def answer(self, scene: Scene) -> str | None:
        return YES_NO[self.group.count(scene) == 0] if isinstance(scene, Grid) else None

    def steps(self, scene: Scene) -> str:
        return Count(self.group).steps(scene)[:-1] + f", so {self.answer(scene)}."

    def alternatives(self) -> Sequence[str]:
        return YES_NO


@dataclass(frozen=True)
class More:
    """Are there more circles than squares?"""

    one: Group
    other: Group

    def wordings(self) -> Sequence[str]:
        a, b = self.one.plural, self.other.plural
        return (
            f"Are there more {a} than {b}?",
            f"Do you see more {a} than {b}?",
            f"Are there fewer {b} than {a}?",
            f"Is the number of {a} greater than the number of {b}?",
        )

    def answer(self, scene: Scene) -> str | None:
        if not isinstance(scene, Grid):
            return None
        return YES_NO[self.one.count(scene) <= self.other.count(scene)]

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Grid)
        a, b = self.one.count(scene), self.other.count(scene)
        one, other = self.one.label, self.other.label
        return (
            f"Which are {one} and {other}? {_rows(scene, _counting(self.one, self.other))} "
            f"The number of {one} is {a}, of {other} is {b}. "
            f"{a} is {'' if a > b else 'not '}more than {b}, so {YES_NO[a <= b]}."
        )

    def alternatives(self) -> Sequence[str]:
        return YES_NO


@dataclass(frozen=True)
class AspectOf:
    """What colour is the (only) star? What shape is the (only) red thing?"""

    aspect: Aspect
    group: Group

    def wordings(self) -> Sequence[str]:
        if self.aspect == "colour":
            s = self.group.shape
            return (
                f"What colour is the {s}?",
                f"Which colour does the {s} have?",
                f"What is the colour of the {s}?",
                f"The {s} is what colour?",
                f"Which colour is the {s}?",
            )
        c = self.group.colour
        return (
            f"What shape is the {c} one?",
            f"Which shape is {c}?",
            f"What is the shape of the {c} thing?",
            f"What {c} shape is there?",
            f"Which shape does the {c} thing have?",
        )

    def answer(self, scene: Scene) -> str | None:
        found = _only(scene, self.group)
        return _aspect(found[2], self.aspect) if found else None

    def steps(self, scene: Scene) -> str:
        found = _only(scene, self.group)
        assert isinstance(scene, Grid)
        assert found
        thing, rows = found[2], _rows(scene, _counting(self.group))
        if self.aspect == "colour":
            return f"Which is the {thing.shape}? {rows} The {thing.shape} is {thing.colour}."
        return f"Which is the {thing.colour} one? {rows} The {thing.colour} one is a {thing.shape}."

    def alternatives(self) -> Sequence[str]:
        return COLOURS if self.aspect == "colour" else SHAPES


@dataclass(frozen=True)
class At:
    """What colour is the shape in row 2, column 3?"""

    aspect: Aspect
    row: int
    column: int

    def wordings(self) -> Sequence[str]:
        a, row, column = self.aspect, self.row + 1, self.column + 1
        ways = [
            f"in row {row}, column {column}",
            f"in row {row} and column {column}",
            f"in column {column} of row {row}",
            f"in the {ORDINALS[self.row]} row and the {ORDINALS[self.column]} column",
        ]
        if self.row != 1 and self.column in (0, COLUMNS - 1):
            corner = f"{_EDGES[self.row]} {'left' if self.column == 0 else 'right'}"
            ways += [f"in the {corner} corner", f"in the {corner}"] * 2
        asked = "shape" if a == "colour" else "thing"
        return [f"{start} {way}?" for way in ways for start in (f"What {a} is the {asked}", f"Which {a} is")]

    def answer(self, scene: Scene) -> str | None:
        thing = scene.cells[self.row][self.column] if isinstance(scene, Grid) else None
        return _aspect(thing, self.aspect) if thing else None

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Grid)
        place, thing = f"ow {self.row + 1}, column {self.column + 1}", scene.cells[self.row][self.column]
        return f"Which is r{place}? {_rows(scene)} R{place} is a {thing}."

    def alternatives(self) -> Sequence[str]:
        return COLOURS if self.aspect == "colour" else SHAPES


@dataclass(frozen=True)
class Beside:
    """What colour is the shape to the right of the red star?"""

    aspect: Aspect
    side: Side
    group: Group

    def wordings(self) -> Sequence[str]:
        a, name = self.aspect, self.group.plural.removesuffix("s")
        asked = "shape" if a == "colour" else "thing"
        return (
            f"What {a} is the {asked} to the {self.side} of the {name}?",
            f"What {a} is {self.side} of the {name}?",
            f"Which {a} is directly {self.side} of the {name}?",
            f"What {a} is the {asked} on the {self.side} of the {name}?",
        )

    def _neighbour(self, scene: Scene) -> Thing | None:
        found = _only(scene, self.group)
        if not isinstance(scene, Grid) or not found:
            return None
        row, column = found[0], found[1] + (1 if self.side == "right" else -1)
        return scene.cells[row][column] if 0 <= column < COLUMNS else None

    def answer(self, scene: Scene) -> str | None:
        thing = self._neighbour(scene)
        return _aspect(thing, self.aspect) if thing else None

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Grid)
        name = self.group.plural.removesuffix("s")
        end = f"{self.side.capitalize()} of the {name} is a {self._neighbour(scene)}."
        return f"Which is {self.side} of the {name}? {_rows(scene, _counting(self.group))} {end}"

    def alternatives(self) -> Sequence[str]:
        return COLOURS if self.aspect == "colour" else SHAPES


@dataclass(frozen=True)
class RowOf:
    """In which row is the red star?"""

    group: Group

    def wordings(self) -> Sequence[str]:
        name = self.group.plural.removesuffix("s")
        return (
            f"In which row is the {name}?",
            f"Which row is the {name} in?",
            f"What row has the {name}?",
            f"In what row do you see the {name}?",
        )

    def answer(self, scene: Scene) -> str | None:
        found = _only(scene, self.group)
        return str(found[0] + 1) if found else None

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Grid)
        name = self.group.plural.removesuffix("s")
        rows = _rows(scene, lambda thing, row: f" ({row + 1})" if self.group.holds(thing) else "")
        return f"Which is the {name}? {rows} The {name} is in row {self.answer(scene)}."

    def alternatives(self) -> Sequence[str]:
        return NUMBERS[1 : ROWS + 1]


def queries(kind: str) -> Sequence[Query]:
    """Return every query of a kind, whether or not it makes sense about a given scene."""
    return _QUERIES[kind]


_ASPECTS: tuple[Aspect, ...] = ("colour", "shape")
_SIDES: tuple[Side, ...] = ("left", "right")
_COLOUR_GROUPS = _SIMPLE_GROUPS[: len(COLOURS)]
_SHAPE_GROUPS = _SIMPLE_GROUPS[len(COLOURS) :]

_QUERIES: dict[str, Sequence[Query]] = {
    "count": [Count(g) for g in _SIMPLE_GROUPS] + [Count(g) for g in _PAIRS],
    "exists": [Exists(g) for g in _PAIRS],
    "more": [More(a, b) for groups in (_COLOUR_GROUPS, _SHAPE_GROUPS) for a, b in permutations(groups, 2)],
    "aspect_of": [AspectOf("colour", g) for g in _SHAPE_GROUPS] + [AspectOf("shape", g) for g in _COLOUR_GROUPS],
    "at": [At(*place) for place in product(_ASPECTS, range(ROWS), range(COLUMNS))],
    "beside": [Beside(*where) for where in product(_ASPECTS, _SIDES, _PAIRS)],
    "row_of": [RowOf(g) for g in _PAIRS],
}
GRID_KINDS = tuple(_QUERIES)
