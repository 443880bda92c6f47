"""SmallAgent and LargeAgent: one model call as a LangGraph node, from the messages to the reply and the step record."""

import logging
import math
import re
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, cast

from langchain_core.exceptions import ContextOverflowError, ModelError, ModelTimeoutError
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langgraph.runtime import get_runtime
from langgraph.types import RetryPolicy

from mai_graph.config import Endpoint, MAIConfig
from mai_graph.errors import ConfigError
from mai_graph.node import Node
from mai_graph.prompts import PromptSet, load_prompts
from mai_graph.state import Reply, State, Step
from mai_graph.verifier import read_answer
from mai_graph.vllm import ChatVLLM

logger = logging.getLogger(__name__)

ModelLike: TypeAlias = Endpoint | tuple[str, str] | BaseChatModel
"""A model: an `Endpoint`, a (URL, model name) pair, or any LangChain chat model."""

Update: TypeAlias = dict[str, Any]
"""What a node writes into the state."""

ReplyKey: TypeAlias = Literal["small_short", "large_short", "reasoning", "small_reasoned", "large_answer"]
Messages: TypeAlias = Callable[[State, PromptSet], list[BaseMessage]]
Then: TypeAlias = Callable[[State], Update]


class Agent(NamedTuple):
    """A model that answers."""

    model: BaseChatModel
    name: str
    """How errors and steps call it: model name and URL."""
    endpoint: Endpoint | None
    """None for a model the caller made: it is used as it is, with its own limits, sampling and retries."""

    @property
    def retry_policy(self) -> RetryPolicy | None:
        """LangGraph's retries, for the models made here; a caller's model has its own."""
        tries = self.endpoint.max_retries + 1 if self.endpoint else 1
        return RetryPolicy(max_attempts=tries, retry_on=_is_transient) if tries > 1 else None


def make_agent(field: str, model: ModelLike) -> Agent:
    """Make an agent of whatever `create_mai` was given as `field`.

    Raises:
        ConfigError: When it is none of `ModelLike`.
    """
    if isinstance(model, BaseChatModel):
        name = getattr(model, "model_name", None) or getattr(model, "model", None) or type(model).__name__
        return Agent(model, str(name), None)
    if isinstance(model, tuple) and len(model) == 2:
        try:
            model = Endpoint(url=model[0], model=model[1])
        except ValueError as error:
            raise ConfigError(field, f"{model!r} is no URL and model name: {error}", "Give both as strings.") from None
    if not isinstance(model, Endpoint):
        raise ConfigError(
            field,
            f"is a {type(model).__name__}",
            'Give an Endpoint, a pair ("http://host:port/v1", "model name"), or a LangChain chat model.',
        )
    chat = ChatVLLM(
        base_url=model.url,
        model=model.model,
        api_key=model.api_key or "EMPTY",
        timeout=model.timeout,
        max_retries=0,  # LangGraph's RetryPolicy retries
        stream_usage=True,
    )
    return Agent(chat, f"{model.model} at {model.url}", model)


def call_node(
    node: str, agent: Agent, reply_key: ReplyKey, messages: Messages, then: Then | None = None
) -> Node[Update]:
    """A node that calls `agent` once and writes its reply to `reply_key` and its record to ``steps``.

    A failed call does not raise: its reply says why, and the policy decides what the run can still end with.

    Args:
        node: The node's name.
        agent: Which model.
        reply_key: Key of the state for the `Reply`; "reasoning" asks for R, all others for a short answer.
        messages: The conversation to send.
        then: What else to write, given the state with the reply in it.
    """
    reasoning = reply_key == "reasoning"

    def prepare(state: State) -> tuple[list[BaseMessage], dict[str, Any]]:
        config = get_runtime(MAIConfig).context
        sampling = {
            "max_tokens": config.think_max_tokens if reasoning else config.short_max_tokens,
            "temperature": config.temperature,
            "logprobs": not reasoning,
        }
        return messages(state, load_prompts(config.prompts)), sampling if agent.endpoint else {}

    def update(state: State, reply: Reply, step: Step) -> Update:
        answered = cast(State, {**state, reply_key: reply})
        return {reply_key: reply, "steps": [step], **(then(answered) if then else {})}

    def failed(state: State, error: Exception, clock: _Clock) -> Update:
        if _may_retry(agent, error):
            raise error
        why = f"{agent.name}: {_brief(error)}"
        logger.warning("question %s: %s failed: %s", state["question_id"], node, why)
        reply = Reply(text="", answer=None, confidence=None, truncated=False, error=why, overflow=_is_overflow(error))
        return update(state, reply, clock.step(error=why))

    def replied(state: State, message: AIMessage, clock: _Clock) -> Update:
        reply = _reply(message, state["options"], reasoning=reasoning)
        return update(state, reply, clock.step(message))

    # A chat model class of the caller's may raise anything, and whatever it raises must end in a degraded answer.
    def invoke(state: State) -> Update:
        prompt, sampling = prepare(state)
        clock = _Clock(state["question_id"], node, agent.name)
        try:
            message = agent.model.invoke(prompt, **sampling)
        except Exception as error:  # noqa: BLE001
            return failed(state, error, clock)
        return replied(state, message, clock)

    async def ainvoke(state: State) -> Update:
        prompt, sampling = prepare(state)
        clock = _Clock(state["question_id"], node, agent.name)
        try:
            message = await agent.model.ainvoke(prompt, **sampling)
        except Exception as error:  # noqa: BLE001
            return failed(state, error, clock)
        return replied(state, message, clock)

    return Node(node, invoke, ainvoke)


class _Clock:
    """Times one call and makes its step."""

    def __init__(self, question_id: str, node: str, model: str) -> None:
        self._call = question_id, node, model
        self._start, self._started = time.time(), time.perf_counter()

    def step(self, message: AIMessage | None = None, *, error: str | None = None) -> Step:
        question_id, node, model = self._call
        usage = message.usage_metadata if message else None
        return Step(
            question_id=question_id,
            node=node,
            model=model,
            start=self._start,
            duration=time.perf_counter() - self._started,
            prompt_tokens=usage["input_tokens"] if usage else None,
            cached_tokens=usage.get("input_token_details", {}).get("cache_read") if usage else None,
            completion_tokens=usage["output_tokens"] if usage else None,
            finish_reason=message.response_metadata.get("finish_reason") if message else None,
            retries=_attempt() - 1,
            error=error,
        )


def _reply(message: AIMessage, options: list[str], *, reasoning: bool) -> Reply:
    text = str(message.text)
    answer = read_answer(text, options=options, reasoning=reasoning)
    if reasoning:
        # A reasoning parser splits R off the text; without one R may stand in think tags, which chat templates drop
        # from an earlier turn: either way R is plain text from here on.
        split_off = message.additional_kwargs.get("reasoning_content", "")
        text = "\n".join(part.strip() for part in (split_off, *re.split(r"</?think>", text)) if part.strip())
    truncated = message.response_metadata.get("finish_reason") == "length"
    return Reply(
        text=text,
        answer=None if truncated else answer,
        confidence=_confidence(message),
        truncated=truncated,
        error=None,
        overflow=False,
    )


def _confidence(message: AIMessage) -> float | None:
    logprobs = message.response_metadata.get("logprobs") or {}
    tokens = [token["logprob"] for token in logprobs.get("content") or []]
    return math.exp(sum(tokens) / len(tokens)) if tokens else None


def _attempt() -> int:
    run = get_runtime().execution_info
    return run.node_attempt if run else 1


def _may_retry(agent: Agent, error: Exception) -> bool:
    policy = agent.retry_policy
    return policy is not None and _is_transient(error) and _attempt() < policy.max_attempts


def _is_transient(error: Exception) -> bool:
    # A timeout is left out: the server is busy with the first try, a second one only adds to its load.
    return isinstance(error, ModelError) and error.is_retryable and not isinstance(error, ModelTimeoutError)


def _is_overflow(error: Exception) -> bool:
    return isinstance(error, ContextOverflowError) or "maximum context length" in str(error)  # vLLM's words


def _brief(error: Exception) -> str:
    """One line without picture data, which an error message of a server may echo."""
    text = re.sub(r"[A-Za-z0-9+/=]{200,}", "...", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text if len(text) <= 300 else text[:300] + '...'}"
