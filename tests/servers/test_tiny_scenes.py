"""The miniature world: questions, answers and reasoning agree with each other and with the picture."""

import re

import numpy as np
import pytest

from mai_servers.tiny.chart_questions import CHART_KINDS, Above, Difference, Extreme, Place, Taller, Value
from mai_servers.tiny.drawing import Bar, Chart, Grid, Thing, draw_scene
from mai_servers.tiny.questions import GRID_KINDS, AspectOf, At, Beside, Count, Exists, Group, More, Query, RowOf
from mai_servers.tiny.scenes import Example, make_question

RED_CIRCLE, RED_STAR, BLUE_STAR = Thing("red", "circle"), Thing("red", "star"), Thing("blue", "star")
GRID = Grid(((RED_CIRCLE, None, BLUE_STAR, None), (None, RED_STAR, None, None), (None, None, None, RED_CIRCLE)))
CHART = Chart((Bar("red", 3), Bar("blue", 7), Bar("green", 2), Bar("yellow", 5)))
EXAMPLES = [make_question(seed) for seed in range(600)]


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (Count(Group("red")), "3"),
        (Count(Group("red", "circle")), "2"),
        (Count(Group(shape="square")), "0"),
        (Exists(Group("blue", "star")), "yes"),
        (Exists(Group("blue", "circle")), "no"),
        (More(Group("red"), Group("blue")), "yes"),
        (More(Group(shape="circle"), Group(shape="star")), "no"),
        (AspectOf("shape", Group("blue")), "star"),
        (AspectOf("colour", Group(shape="star")), None),  # there are two
        (At("colour", 0, 2), "blue"),
        (At("shape", 2, 3), "circle"),
        (At("shape", 0, 1), None),  # empty
        (RowOf(Group("red", "star")), "2"),
        (Beside("colour", "right", Group("red", "star")), None),  # nothing there
        (Value("red"), None),  # no chart
    ],
)
def test_questions_about_a_grid_have_the_true_answer(query: Query, answer: str | None) -> None:
    assert query.answer(GRID) == answer


@pytest.mark.parametrize(
    ("query", "answer"),
    [
        (Value("blue"), "7"),
        (Value("purple"), None),
        (Extreme("largest"), "blue"),
        (Extreme("smallest"), "green"),
        (Difference("red", "blue"), "4"),
        (Taller("red", "green"), "yes"),
        (Taller("red", "blue"), "no"),
        (Above(3), "2"),
        (Place(3), "yellow"),
        (Count(Group("red")), None),  # no grid
    ],
)
def test_questions_about_a_chart_have_the_true_answer(query: Query, answer: str | None) -> None:
    assert query.answer(CHART) == answer


def test_beside_looks_at_the_next_cell_of_the_same_row() -> None:
    grid = Grid(((RED_STAR, BLUE_STAR, None, None), (None,) * 4, (None,) * 4))
    assert Beside("colour", "right", Group("red", "star")).answer(grid) == "blue"
    assert Beside("colour", "left", Group("blue", "star")).answer(grid) == "red"
    assert Beside("colour", "left", Group("red", "star")).answer(grid) is None


def test_a_seed_always_makes_the_same_example() -> None:
    one, other = make_question(5), make_question(5)
    assert one == other
    assert one.image().tobytes() == other.image().tobytes()


def test_different_seeds_make_different_examples() -> None:
    assert len({(e.scene, e.question) for e in EXAMPLES}) == len(EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES[:60], ids=lambda e: e.kind)
def test_reasoning_ends_with_the_answer(example: Example) -> None:
    assert example.reasoning().endswith(f"\nAnswer: {example.answer}")


def test_option_letters_name_the_true_answer() -> None:
    chosen = [e for e in EXAMPLES if e.options]
    assert chosen
    for example in chosen:
        assert len(set(example.options)) == len(example.options)
        assert example.options["ABCD".index(example.answer)] == example.query.answer(example.scene)


def test_reasoning_about_a_scene_without_an_answer_is_refused() -> None:
    example = next(e for e in EXAMPLES if e.kind == "count")
    with pytest.raises(ValueError, match="has no answer"):
        example.reasoning(CHART)


def test_the_reasoning_repeats_what_is_asked_and_counts_while_it_lists_every_cell() -> None:
    assert Count(Group("red")).steps(GRID) == (
        "Which are red shapes? Row 1: red circle (1), empty, blue star, empty. "
        "Row 2: empty, red star (2), empty, empty. Row 3: empty, empty, empty, red circle (3). The number is 3."
    )


def test_every_kind_is_asked() -> None:
    assert {e.kind for e in EXAMPLES} == {*GRID_KINDS, *CHART_KINDS}


@pytest.mark.parametrize("kind", [*GRID_KINDS, *CHART_KINDS])
def test_no_answer_is_so_frequent_that_guessing_it_pays(kind: str) -> None:
    answers = [e.answer for e in EXAMPLES if e.kind == kind]
    most = max(answers.count(a) for a in set(answers)) / len(answers)
    yes_or_no = {"yes", "no"} & set(answers)
    assert most < (0.7 if yes_or_no else 0.5)


def test_questions_come_in_both_spellings_and_with_and_without_a_question_mark() -> None:
    text = "\n".join(e.question for e in EXAMPLES)
    assert re.search(r"\bcolour\b", text)
    assert re.search(r"\bcolor\b", text)
    assert any(not e.question.endswith(("?", ".")) for e in EXAMPLES)
    assert any(e.question[0].islower() for e in EXAMPLES)


def test_a_shape_is_drawn_in_its_cell_in_its_colour() -> None:
    pixels = np.asarray(draw_scene(GRID, seed=3)).astype(int)
    red, green, blue = pixels[64, 64]  # middle of row 1, column 1
    assert red > green + 60
    assert red > blue + 60
    assert pixels[64, 192].min() > 230  # row 1, column 2 is paper


@pytest.mark.parametrize("column", range(4))
def test_a_bar_is_as_high_as_its_value(column: int) -> None:
    bar = CHART.bars[column]
    line = np.asarray(draw_scene(CHART, seed=1)).astype(int)[:370, 64 + 128 * column]
    coloured = (line.max(axis=1) - line.min(axis=1) > 60).sum()
    assert coloured == pytest.approx(bar.value * 32, abs=8)
