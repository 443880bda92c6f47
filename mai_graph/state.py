"""What travels through the graph. Everything here is plain JSON, so any checkpointer keeps it without pickle.

`Input` is what a caller gives, `State` what the nodes share, `Output` what comes back.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Annotated, Literal, TypeAlias

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from PIL import Image
from pydantic import Field, InstanceOf, WithJsonSchema
from typing_extensions import TypedDict  # typing.TypedDict gives LangGraph no JSON schema on Python 3.11

from mai_graph.config import Metric

Route = Literal["agreement", "reasoned_agreement", "transfer", "without_small", "without_large"]
Role = Literal["small", "large"]
Picture: TypeAlias = str | bytes | PathLike[str] | InstanceOf[Image.Image]


class Reply(TypedDict):
    """What one model call came back with."""

    text: str
    """As the model wrote it; for the reasoning call this is R."""
    answer: str | None
    """The short answer read from it; None when there is none, when it is blank or cut off."""
    confidence: float | None
    """Geometric mean of the token probabilities, 0 to 1; None when the server gives no logprobs."""
    truncated: bool
    """Whether it met its token limit."""
    error: str | None
    """Why the call failed, after its retries; then `text` is empty."""
    overflow: bool
    """Whether it failed because the prompt is longer than the model's context."""


class Step(TypedDict):
    """The record of one model call, with what is needed to fit the latency model (docs/architecture.md)."""

    question_id: str
    node: str
    model: str
    start: float
    """Unix time, s."""
    duration: float
    """Seconds, of the successful or last try."""
    prompt_tokens: int | None
    cached_tokens: int | None
    """Prompt tokens read from the server's prefix cache."""
    completion_tokens: int | None
    finish_reason: str | None
    retries: int
    error: str | None


class Verdict(TypedDict):
    """Whether two answers say the same thing, and by which measure."""

    agree: bool
    metric: Metric
    guessed: bool
    """Whether the metric was guessed from the question's form."""
    score: float
    """Similarity, 0 to 1."""


class Transferred(TypedDict):
    """The reasoning as the large model reads it."""

    text: str
    characters: int
    """Characters of R kept."""
    of_characters: int
    """Characters of R."""


def add_steps(old: list[Step], new: list[Step]) -> list[Step]:
    """Append steps; those of an earlier question on the same thread give way."""
    if old and new and old[-1]["question_id"] != new[0]["question_id"]:
        return new
    return old + new


class Input(TypedDict, total=False):
    """A question about pictures, or a conversation whose last human message asks it."""

    question: Annotated[str | None, Field(title="Question", description="What to find out about the pictures.")]
    images: Annotated[
        Sequence[Picture] | None,
        WithJsonSchema({"type": "array", "items": {"type": "string"}}),
        Field(
            title="Pictures",
            description="Each a path, an http(s) URL or a data URL; in Python also bytes or a PIL image.",
        ),
    ]
    options: Annotated[
        list[str] | None,
        Field(title="Options", description="Texts of a multiple-choice question, in order: A, B, C, ..."),
    ]
    metric: Annotated[
        Metric | None, Field(title="Metric", description="How to compare the answers; empty: guessed from the form.")
    ]
    question_id: Annotated[
        str | None, Field(title="Question id", description="Names the question in logs and steps; made up when empty.")
    ]
    messages: Annotated[
        list[AnyMessage],
        Field(title="Messages", description="Instead of question and pictures: LangChain messages."),
    ]


class Output(TypedDict):
    """The answer and how it came about."""

    question_id: str
    answer: str
    route: Route
    confidence: float | None
    degraded: Annotated[str | None, Field(description="Why the answer is less than the method promises, or null.")]
    verdict: Verdict | None
    small_short: Reply
    large_short: Reply
    reasoning: Reply | None
    small_reasoned: Reply | None
    transferred: Transferred | None
    large_answer: Reply | None
    steps: list[Step]
    messages: list[AnyMessage]


class Start(TypedDict):
    """What a run starts with: the input as it was read, and nothing of an earlier question on the same thread."""

    question: str | None
    """None when the last of `messages` asks it."""
    images: list[str]
    """Data URLs; empty when the pictures are in `messages`."""
    options: list[str]
    metric: Metric | None
    question_id: str
    messages: Annotated[list[AnyMessage], add_messages]
    two_stage: bool
    """The run's setting: what the policy reads stands in the state."""
    notes: list[str]
    """What was said about the input while reading it, e.g. that only an animation's first frame is used."""
    reasoning: Reply | None
    small_reasoned: Reply | None
    transferred: Transferred | None
    large_answer: Reply | None
    verdict: Verdict | None
    degraded: str | None


class State(Start):
    """What the nodes share: the start, each call's reply, the verdict, and the outcome."""

    small_short: Reply
    large_short: Reply
    steps: Annotated[list[Step], add_steps]
    answer: str
    route: Route
    confidence: float | None
