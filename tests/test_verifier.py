"""What counts as an answer, and when two answers agree."""

import pytest

from mai_graph.verifier import read_answer, verify

COLOURS = ["red", "blue", "dark blue", "green"]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("7", "7"),
        (" Yes. ", "Yes"),
        ("**blue**", "blue"),
        ("Answer: 7", "7"),
        ("The answer: 7 is wrong", "The answer: 7 is wrong"),
        ("**Answer:** dark blue.", "dark blue"),
        ("Final answer: -5", "-5"),
        ("I see two.\nAnswer: 2\nNo, wait.\nAnswer: 3", "3"),
        ("<think>Is it 4?\nAnswer: 4</think>\n5", "5"),
        ("", None),
        ("  \n ", None),
        ("...", None),
        ("Answer:", None),
        ("Let me see.\nThere are two.", None),
    ],
)
def test_a_short_reply_is_read(text: str, answer: str | None) -> None:
    assert read_answer(text) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Row 1: red circle.\nAnswer: 1", "1"),
        ("There is one.", None),
        ("Row 1: red circle.\nThere is one.", None),
    ],
)
def test_reasoning_has_an_answer_only_where_it_says_so(text: str, answer: str | None) -> None:
    assert read_answer(text, reasoning=True) == answer


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("b", "B"),
        ("(B)", "B"),
        ("B.", "B"),
        ("B)", "B"),
        ("Answer: (B) blue", "B"),
        ("B. blue", "B"),
        ("blue", "B"),
        ("Dark Blue", "C"),
        ("B. red", None),
        ("E", None),
        ("purple", None),
    ],
)
def test_with_options_the_answer_is_a_letter(text: str, letter: str | None) -> None:
    assert read_answer(text, options=COLOURS) == letter


@pytest.mark.parametrize(
    ("a", "b", "metric", "agree"),
    [
        ("Yes", "yes", "em", True),
        ("a  red circle", "A red circle.", "em", True),
        ("-5", "5", "em", False),
        (".5", "5", "em", False),
        ("ｙｅｓ", "yes", "em", True),
        ("yes", "no", "em", False),
        ("1,000", "1000", "number", True),
        ("$5", "5.0", "number", True),
        ("12%", "12 %", "number", True),
        ("12%", "12", "number", False),
        ("\u22125", "-5", "number", True),
        ("two", "2", "number", False),
        ("two", "two", "number", False),
        ("100", "104", "relaxed", True),
        ("104", "100", "relaxed", True),
        ("100", "106", "relaxed", False),
        ("0", "1", "relaxed", False),
        ("red", "Red", "relaxed", True),
        ("Main Street 12", "Main Street, 12", "anls", True),
        ("2018", "2019", "anls", False),
    ],
)
def test_answers_are_compared_by_the_metric(a: str, b: str, metric: str, agree: bool) -> None:
    verdict = verify(a, b, metric=metric)  # type: ignore[arg-type]
    assert verdict["agree"] is agree
    assert verify(b, a, metric=metric) == verdict  # type: ignore[arg-type]
    assert verdict["metric"] == metric
    assert not verdict["guessed"]


@pytest.mark.parametrize("metric", ["em", "anls", "number", "choice", "relaxed", None])
@pytest.mark.parametrize("other", [None, "7"])
def test_no_answer_agrees_with_nothing(metric: str | None, other: str | None) -> None:
    assert not verify(None, other, metric=metric, options=COLOURS)["agree"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("a", "b", "options", "metric"),
    [("A", "B", COLOURS, "choice"), ("3", "4.0", [], "number"), ("3", "three", [], "em"), ("yes", "no", [], "em")],
)
def test_the_metric_is_guessed_from_the_form(a: str, b: str, options: list[str], metric: str) -> None:
    verdict = verify(a, b, metric=None, options=options)
    assert verdict["metric"] == metric
    assert verdict["guessed"]


def test_the_anls_threshold_counts_as_agreement_when_it_is_met_exactly() -> None:
    assert verify("2018", "2019", metric="anls", anls_threshold=0.75)["agree"]
    assert not verify("2018", "2019", metric="anls", anls_threshold=0.76)["agree"]
