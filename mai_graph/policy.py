"""The escalation policy: which way a question goes after each step, and what it ends with.

Pure functions of the state: no model, no I/O. An ``after_*`` function returns the label of an edge of the graph; the
edges that end a run are labelled with its route, and `settle` makes the outcome of that route.
"""

from collections.abc import Iterator
from typing import Literal, TypedDict

from mai_graph.errors import UnavailableError
from mai_graph.state import Reply, Route, State

_SHORTEST_TRANSFER = 200
"""Characters below which a shortened reasoning is not worth another call of the large model."""


class Outcome(TypedDict):
    """What a run ends with."""

    answer: str
    route: Route
    confidence: float | None
    degraded: str | None


def after_short(state: State) -> Literal["agreement", "without_small", "differ"]:
    """Both short answers are in: the same answer ends the run, different ones wake the small model's reasoning."""
    if _agree(state):
        return "agreement"
    return "without_small" if state["small_short"]["error"] else "differ"


def after_think(state: State) -> Literal["two_stage", "one_stage", "without_reasoning"]:
    """R is in: the small model reads it and answers again (S2); in one stage its answer is read from R itself."""
    if _failed(state["reasoning"]):
        return "without_reasoning"
    return "two_stage" if state["two_stage"] else "one_stage"


def after_reasoned(state: State) -> Literal["reasoned_agreement", "without_small", "without_large", "differ"]:
    """The small model has reasoned: the large model's short answer now agrees, or else gets to read R."""
    if _agree(state):
        return "reasoned_agreement"
    if state["large_short"]["error"]:
        return "without_large"
    return "without_small" if _failed(state["reasoning"]) else "differ"


def after_transfer(state: State) -> Literal["transfer", "without_large", "too_long"]:
    """The large model has read R: its answer ends the run; a prompt beyond its context goes back to be shortened."""
    reply, transferred = state["large_answer"], state["transferred"]
    assert reply is not None
    assert transferred is not None
    if reply["answer"] is not None:
        return "transfer"
    if reply["overflow"] and transferred["characters"] > _SHORTEST_TRANSFER:
        return "too_long"
    return "without_large"


def settle(state: State, route: Route) -> Outcome:
    """The outcome of a run that ends by `route`.

    Raises:
        UnavailableError: When no model gave anything that could be returned.
    """
    large = [state["large_answer"], state["large_short"]]
    small = [state["small_reasoned"], state["reasoning"], state["small_short"]]
    replies = [reply for reply in (small + large if route == "without_large" else large + small) if reply]
    shortcomings = list(_shortcomings(state))
    chosen = next((reply for reply in replies if reply["answer"] is not None), None)
    if chosen is None:
        chosen = next((reply for reply in replies if reply["text"].strip()), None)
        shortcomings.append("no short answer could be read from what the models wrote: this is a model's text as it is")
    if chosen is None:
        raise UnavailableError("no model gave an answer: " + "; ".join(shortcomings[:-1] or ["all replies were blank"]))
    return {
        "answer": chosen["answer"] if chosen["answer"] is not None else chosen["text"].strip(),
        "route": route,
        "confidence": chosen["confidence"],
        "degraded": "; ".join(shortcomings) or None,
    }


def _agree(state: State) -> bool:
    verdict = state["verdict"]
    return verdict is not None and verdict["agree"]


def _failed(reply: Reply | None) -> bool:
    return reply is None or reply["error"] is not None or not reply["text"].strip()


def _shortcomings(state: State) -> Iterator[str]:
    yield from state["notes"]
    for call, reply in (
        ("the small model's short answer", state["small_short"]),
        ("the large model's short answer", state["large_short"]),
        ("the small model's reasoning", state["reasoning"]),
        ("the small model's answer after reasoning", state["small_reasoned"]),
        ("the large model's answer after reading the reasoning", state["large_answer"]),
    ):
        if reply and reply["error"]:
            yield f"{call} failed: {reply['error']}"
    reasoning, transferred, last = state["reasoning"], state["transferred"], state["large_answer"]
    if reasoning and reasoning["truncated"]:
        yield "the small model's reasoning was cut off by its token limit"
    if reasoning and not reasoning["error"] and not reasoning["text"].strip():
        yield "the small model's reasoning was blank"
    if transferred and transferred["characters"] < transferred["of_characters"]:
        yield (
            f"the reasoning was shortened from its middle to {transferred['characters']} of "
            f"{transferred['of_characters']} characters to fit the large model's context"
        )
    if last and not last["error"] and last["answer"] is None:
        yield "the large model's answer after reading the reasoning could not be read"
