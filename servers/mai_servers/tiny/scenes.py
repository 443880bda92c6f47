"""Procedural questions about procedural pictures, the miniature pair's world: one seed, one picture, one question.

    example = make_question(seed=42)
    example.image().show(); print(example.question, example.options, example.answer)

The questions of `make_question(seed)` and those the models are trained on come from different random streams, so any
seed is a held-out one. Needs only numpy and Pillow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from PIL import Image

from mai_servers.tiny import chart_questions, questions
from mai_servers.tiny.drawing import Chart, Grid, Scene, draw_scene, random_scene
from mai_servers.tiny.questions import Query

__all__ = ["Chart", "Example", "Grid", "Scene", "ask", "draw_scene", "make_question", "random_scene"]

HELD_OUT, TRAINING = 0, 1  # first number of the random stream

# How often each kind is asked; counting and comparing, which need several steps, more often than looking up.
_WEIGHTS = {
    "count": 3.0, "exists": 1.5, "more": 1.5, "aspect_of": 1.5, "at": 1.5, "beside": 1.5, "row_of": 1.0,
    "value": 1.0, "extreme": 1.0, "difference": 2.0, "taller": 1.0, "above": 1.5, "place": 0.7,
}  # fmt: skip
_LETTERS = "ABCD"


@dataclass(frozen=True)
class Example:
    """A picture, a question about it and what is true about it.

    Attributes:
        scene: What the picture shows.
        seed: Seed of the drawing.
        kind: Kind of question, e.g. "count" or "difference".
        query: The meaning of the question.
        question: Its wording.
        options: Texts of the options A, B, ..., or empty.
        answer: The true short answer: a word, a number, or the letter of the right option.
    """

    scene: Scene
    seed: int
    kind: str
    query: Query
    question: str
    options: tuple[str, ...]
    answer: str

    def image(self) -> Image.Image:
        """Draw the picture, 512 x 384 pixels."""
        return draw_scene(self.scene, self.seed)

    def reasoning(self, scene: Scene | None = None) -> str:
        """Return the reasoning that ends with the line "Answer: ...".

        Args:
            scene: Another scene than the example's to reason about.

        Raises:
            ValueError: If the question makes no sense about that scene, or its answer isn't among the options.
        """
        scene = scene or self.scene
        answer = self.query.answer(scene)
        if answer is None or (self.options and answer not in self.options):
            raise ValueError(f"{self.question!r} has no answer among {self.options or 'all'} for {scene}")
        steps = self.query.steps(scene)
        if not self.options:
            return f"{steps}\nAnswer: {answer}"
        # One option after the other, up to the right one: what a letter means is easier to look up than its letter.
        letters = _LETTERS[: self.options.index(answer) + 1]
        walk = ", ".join(f"{letter} is {text}" for letter, text in zip(letters, self.options, strict=False))
        return f"{steps} {walk}.\nAnswer: {letters[-1]}"


def make_question(seed: int) -> Example:
    """Make the held-out example of a seed; the same seed always gives the same example."""
    return random_example(np.random.default_rng([HELD_OUT, seed]))


def random_example(rng: np.random.Generator) -> Example:
    """Draw a scene and ask a question about it."""
    scene = random_scene(rng)
    return ask(scene, int(rng.integers(2**31)), rng)


def ask(scene: Scene, seed: int, rng: np.random.Generator) -> Example:
    """Ask a question about a scene, with its answers balanced within each kind of question.

    Args:
        scene: What the picture shows.
        seed: Seed of its drawing.
        rng: Source of the choice of question, wording and options.
    """
    source = questions if isinstance(scene, Grid) else chart_questions
    kinds = questions.GRID_KINDS if isinstance(scene, Grid) else chart_questions.CHART_KINDS
    weights = np.array([_WEIGHTS[kind] for kind in kinds])
    answered: list[tuple[str, Query]] = []
    while not answered:
        kind = kinds[rng.choice(len(kinds), p=weights / weights.sum())]
        answered = [(a, query) for query in source.queries(kind) if (a := query.answer(scene)) is not None]
    answered.sort(key=lambda pair: pair[0])
    by_answer = [[query for _, query in group] for _, group in groupby(answered, key=lambda pair: pair[0])]
    same_answer = by_answer[rng.integers(len(by_answer))]
    query = same_answer[rng.integers(len(same_answer))]
    answer = query.answer(scene)
    assert answer is not None
    options = _options(query.alternatives(), answer, rng)
    return Example(
        scene=scene,
        seed=seed,
        kind=kind,
        query=query,
        question=_reword(query.wordings(), rng),
        options=options,
        answer=_LETTERS[options.index(answer)] if options else answer,
    )


def _options(alternatives: Sequence[str], answer: str, rng: np.random.Generator) -> tuple[str, ...]:
    """Make a multiple-choice question of some, with the right option at a random place."""
    if rng.random() > (0.3 if len(alternatives) > 2 else 0.1):
        return ()
    wrong = [alternative for alternative in alternatives if alternative != answer]
    chosen = [wrong[i] for i in rng.permutation(len(wrong))[: len(_LETTERS) - 1]]
    chosen.insert(int(rng.integers(len(chosen) + 1)), answer)
    return tuple(chosen)


def _reword(wordings: Sequence[str], rng: np.random.Generator) -> str:
    """Pick a wording and write it as people type: American spelling, lower case, no question mark."""
    text = wordings[rng.integers(len(wordings))]
    if rng.random() < 0.4:
        text = text.replace("colour", "color").replace("Colour", "Color")
    if rng.random() < 0.2:
        text = text[0].lower() + text[1:]
    if rng.random() < 0.15:
        text = text.rstrip("?.")
    return text
