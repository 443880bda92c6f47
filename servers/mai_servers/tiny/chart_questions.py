"""Questions about a bar chart; see `questions.py` for what a `Query` is."""

# ruff: noqa: D102 (what the methods are for stands in `Query`)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Literal

from mai_servers.tiny.drawing import COLOURS, COLUMNS, Chart, Colour, Scene
from mai_servers.tiny.questions import NUMBERS, ORDINALS, YES_NO, Query

End = Literal["largest", "smallest"]


def _bars(chart: Chart) -> str:
    return "From left to right: " + ", ".join(f"the {b.colour} bar is {b.value} high" for b in chart.bars) + "."


def _values(scene: Scene, *colours: Colour) -> list[int] | None:
    """Return the values of those bars, or None where one of them is missing."""
    if not isinstance(scene, Chart):
        return None
    values = [scene.value(colour) for colour in colours]
    return [v for v in values if v is not None] if None not in values else None


@dataclass(frozen=True)
class Value:
    """How high is the red bar?"""

    colour: Colour

    def wordings(self) -> Sequence[str]:
        c = self.colour
        return (
            f"How high is the {c} bar?",
            f"What is the value of the {c} bar?",
            f"What value does the {c} bar have?",
            f"How tall is the {c} bar?",
            f"What is the value of {c}?",
            f"What is the height of the {c} bar?",
        )

    def answer(self, scene: Scene) -> str | None:
        values = _values(scene, self.colour)
        return str(values[0]) if values else None

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Chart)
        return f"Which is the {self.colour} bar? {_bars(scene)} The {self.colour} bar is {self.answer(scene)}."

    def alternatives(self) -> Sequence[str]:
        return NUMBERS[1:]


@dataclass(frozen=True)
class Extreme:
    """Which bar is the tallest?"""

    end: End

    def wordings(self) -> Sequence[str]:
        words = ("tallest", "highest", "largest") if self.end == "largest" else ("shortest", "lowest", "smallest")
        starts = ("Which bar is the", "Which bar is", "What colour is the bar that is")
        return (
            *(f"{start} {word}?" for word in words for start in starts),
            *(f"What colour is the {word} bar?" for word in words),
            f"Which bar has the {self.end} value?",
            f"Which colour has the {self.end} value?",
        )

    def _value(self, chart: Chart) -> int:
        return (max if self.end == "largest" else min)(b.value for b in chart.bars)

    def answer(self, scene: Scene) -> str | None:
        found = [b.colour for b in scene.bars if b.value == self._value(scene)] if isinstance(scene, Chart) else []
        return found[0] if len(found) == 1 else None

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Chart)
        end = f"The {self.end} value is {self._value(scene)}, the {self.answer(scene)} bar."
        return f"Which is the {self.end} value? {_bars(scene)} {end}"

    def alternatives(self) -> Sequence[str]:
        return COLOURS


@dataclass(frozen=True)
class Difference:
    """What is the difference between the red and the blue bar?"""

    one: Colour
    other: Colour

    def wordings(self) -> Sequence[str]:
        a, b = self.one, self.other
        return (
            f"What is the difference between the {a} bar and the {b} bar?",
            f"What is the difference between {a} and {b}?",
            f"How much do the {a} bar and the {b} bar differ?",
            f"By how much do {a} and {b} differ?",
            f"How far apart are {a} and {b}?",
        )

    def answer(self, scene: Scene) -> str | None:
        values = _values(scene, self.one, self.other)
        return str(abs(values[0] - values[1])) if values else None

    def steps(self, scene: Scene) -> str:
        values = _values(scene, self.one, self.other)
        assert isinstance(scene, Chart)
        assert values
        high, low = max(values), min(values)
        read = f"{self.one.capitalize()} is {values[0]} and {self.other} is {values[1]}."
        return f"Which are {self.one} and {self.other}? {_bars(scene)} {read} {high} - {low} = {high - low}."

    def alternatives(self) -> Sequence[str]:
        return NUMBERS[:9]


@dataclass(frozen=True)
class Taller:
    """Is the red bar taller than the blue bar?"""

    one: Colour
    other: Colour

    def wordings(self) -> Sequence[str]:
        a, b = self.one, self.other
        return (
            *(f"Is the {a} bar {word} than the {b} bar?" for word in ("taller", "higher", "larger")),
            f"Is {a} higher than {b}?",
            f"Is {a} more than {b}?",
            f"Is the {b} bar lower than the {a} bar?",
            f"Is the {b} bar shorter than the {a} bar?",
        )

    def answer(self, scene: Scene) -> str | None:
        values = _values(scene, self.one, self.other)
        return YES_NO[values[0] <= values[1]] if values else None

    def steps(self, scene: Scene) -> str:
        values = _values(scene, self.one, self.other)
        assert isinstance(scene, Chart)
        assert values
        a, b = values
        return (
            f"Which are {self.one} and {self.other}? {_bars(scene)} "
            f"{self.one.capitalize()} is {a} and {self.other} is {b}. "
            f"{a} is {'' if a > b else 'not '}more than {b}, so {self.answer(scene)}."
        )

    def alternatives(self) -> Sequence[str]:
        return YES_NO


@dataclass(frozen=True)
class Above:
    """How many bars are higher than 4?"""

    level: int

    def wordings(self) -> Sequence[str]:
        n = self.level
        return (
            *(f"How many bars are {word} than {n}?" for word in ("higher", "taller", "larger")),
            f"How many bars are above {n}?",
            f"How many bars have a value of more than {n}?",
        )

    def answer(self, scene: Scene) -> str | None:
        return str(sum(b.value > self.level for b in scene.bars)) if isinstance(scene, Chart) else None

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Chart)
        checks, count = [], 0
        for bar in scene.bars:
            more = bar.value > self.level
            count += more
            checks.append(
                f"{bar.value} is {'' if more else 'not '}more than {self.level}{f' ({count})' if more else ''}"
            )
        return f"Which are bars above {self.level}? {_bars(scene)} {', '.join(checks)}. The number is {count}."

    def alternatives(self) -> Sequence[str]:
        return NUMBERS[: COLUMNS + 1]


@dataclass(frozen=True)
class Place:
    """What colour is the second bar from the left?"""

    place: int

    def wordings(self) -> Sequence[str]:
        left, right = ORDINALS[self.place], ORDINALS[COLUMNS - 1 - self.place]
        ways = [f"the {left} bar from the left", f"the {left} bar", f"bar {self.place + 1}"]
        ways.append(f"the {right} bar from the right")
        if self.place in (0, COLUMNS - 1):
            ways = [f"the bar on the {'left' if self.place == 0 else 'right'}", *ways[:3]]
        return [f"{start} {way}?" for way in ways for start in ("What colour is", "Which colour is")]

    def answer(self, scene: Scene) -> str | None:
        return scene.bars[self.place].colour if isinstance(scene, Chart) else None

    def steps(self, scene: Scene) -> str:
        assert isinstance(scene, Chart)
        return f"Which is bar {self.place + 1}? {_bars(scene)} Bar {self.place + 1} is {self.answer(scene)}."

    def alternatives(self) -> Sequence[str]:
        return COLOURS


def queries(kind: str) -> Sequence[Query]:
    """Return every query of a kind, whether or not it makes sense about a given chart."""
    return _QUERIES[kind]


_ENDS: tuple[End, ...] = ("largest", "smallest")
_QUERIES: dict[str, Sequence[Query]] = {
    "value": [Value(c) for c in COLOURS],
    "extreme": [Extreme(end) for end in _ENDS],
    "difference": [Difference(a, b) for a, b in permutations(COLOURS, 2)],
    "taller": [Taller(a, b) for a, b in permutations(COLOURS, 2)],
    "above": [Above(n) for n in range(1, 9)],
    "place": [Place(i) for i in range(COLUMNS)],
}
CHART_KINDS = tuple(_QUERIES)
