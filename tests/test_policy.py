"""The escalation policy as truth tables: no model runs here."""

from typing import Any

import pytest

from mai_graph.errors import UnavailableError
from mai_graph.policy import after_reasoned, after_short, after_think, after_transfer, settle
from mai_graph.state import Reply, State


def reply(answer: str | None = None, *, text: str | None = None, error: str | None = None, **more: Any) -> Reply:
    return {
        "text": "" if error else text if text is not None else answer or "",
        "answer": answer,
        "confidence": 0.9 if answer else None,
        "truncated": False,
        "error": error,
        "overflow": False,
    } | more  # type: ignore[return-value]


DOWN = reply(error="small at http://127.0.0.1:1/v1: Connection error.")
BLANK = reply(text=" ")


def state(agree: bool = False, **replies: Any) -> State:
    return {
        "notes": [],
        "small_short": reply("3"),
        "large_short": reply("4"),
        "reasoning": None,
        "small_reasoned": None,
        "transferred": None,
        "large_answer": None,
        "verdict": {"agree": agree, "metric": "number", "guessed": True, "score": float(agree)},
    } | replies  # type: ignore[return-value]


def transferred(characters: int = 900, of_characters: int = 900) -> dict[str, Any]:
    return {"text": "x" * characters, "characters": characters, "of_characters": of_characters}


@pytest.mark.parametrize(
    ("agree", "small", "large", "label"),
    [
        (True, reply("4"), reply("4"), "agreement"),
        (False, reply("3"), reply("4"), "differ"),
        (False, BLANK, reply("4"), "differ"),
        (False, reply("3"), BLANK, "differ"),
        (False, BLANK, BLANK, "differ"),
        (False, DOWN, reply("4"), "without_small"),
        (False, reply("3"), DOWN, "differ"),
        (False, DOWN, DOWN, "without_small"),
    ],
)
def test_after_the_short_answers(agree: bool, small: Reply, large: Reply, label: str) -> None:
    assert after_short(state(agree, small_short=small, large_short=large)) == label


@pytest.mark.parametrize(
    ("reasoning", "two_stage", "label"),
    [
        (reply("4", text="R"), True, "two_stage"),
        (reply("4", text="R"), False, "one_stage"),
        (DOWN, True, "without_reasoning"),
        (DOWN, False, "without_reasoning"),
        (BLANK, True, "without_reasoning"),
    ],
)
def test_after_the_reasoning(reasoning: Reply, two_stage: bool, label: str) -> None:
    assert after_think(state(reasoning=reasoning, two_stage=two_stage)) == label


@pytest.mark.parametrize(
    ("agree", "reasoning", "large", "label"),
    [
        (True, reply("4", text="R"), reply("4"), "reasoned_agreement"),
        (False, reply("3", text="R"), reply("4"), "differ"),
        (False, reply("3", text="R"), BLANK, "differ"),
        (False, reply("3", text="R"), DOWN, "without_large"),
        (False, DOWN, DOWN, "without_large"),
        (False, DOWN, reply("4"), "without_small"),
        (False, BLANK, reply("4"), "without_small"),
    ],
)
def test_after_the_small_model_reasoned(agree: bool, reasoning: Reply, large: Reply, label: str) -> None:
    assert after_reasoned(state(agree, reasoning=reasoning, large_short=large)) == label


@pytest.mark.parametrize(
    ("answer", "characters", "label"),
    [
        (reply("4"), 900, "transfer"),
        (BLANK, 900, "without_large"),
        (DOWN, 900, "without_large"),
        (reply(error="too long", overflow=True), 900, "too_long"),
        (reply(error="too long", overflow=True), 200, "without_large"),
    ],
)
def test_after_the_transfer(answer: Reply, characters: int, label: str) -> None:
    assert after_transfer(state(large_answer=answer, transferred=transferred(characters))) == label


@pytest.mark.parametrize(
    ("route", "replies", "answer", "said"),
    [
        ("agreement", {"large_short": reply("four"), "small_short": reply("Four")}, "four", None),
        ("reasoned_agreement", {"reasoning": reply("4", text="R"), "small_reasoned": reply("4.0")}, "4", None),
        ("transfer", {"large_answer": reply("5"), "transferred": transferred()}, "5", None),
        ("transfer", {"large_answer": reply("5"), "transferred": transferred(400)}, "5", "400 of 900 characters"),
        ("without_small", {"small_short": DOWN}, "4", "Connection error"),
        (
            "without_large",
            {"large_short": DOWN, "reasoning": reply("3", text="R"), "small_reasoned": reply("2")},
            "2",
            "Conn",
        ),
        (
            "without_large",
            {"large_short": DOWN, "reasoning": reply("1", text="R"), "small_reasoned": DOWN},
            "1",
            "Conn",
        ),
        ("without_large", {"large_short": DOWN, "reasoning": DOWN}, "3", "Conn"),
        (
            "without_large",
            {"large_answer": BLANK, "small_reasoned": BLANK, "small_short": BLANK},
            "4",
            "could not be read",
        ),
        ("transfer", {"reasoning": reply("1", text="R", truncated=True), "large_answer": reply("5")}, "5", "cut off"),
        ("agreement", {"notes": ["images[0]: only the first frame is used"]}, "4", "first frame"),
        ("without_small", {"small_short": DOWN, "large_short": reply(text="Hm,\nwell")}, "Hm,\nwell", "text as it is"),
    ],
)
def test_the_outcome_of_a_route(route: Any, replies: dict[str, Any], answer: str, said: str | None) -> None:
    outcome = settle(state(**({"transferred": transferred()} | replies)), route)
    assert outcome["answer"] == answer
    assert outcome["route"] == route
    assert (outcome["degraded"] is None) if said is None else (said in (outcome["degraded"] or ""))


def test_no_model_at_all_is_an_error_that_names_them() -> None:
    down = reply(error="large at http://127.0.0.1:2/v1: Connection error.")
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1/v1.*127\.0\.0\.1:2/v1"):
        settle(state(small_short=DOWN, large_short=down), "without_small")
