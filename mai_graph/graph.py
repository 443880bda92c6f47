"""The whole algorithm: Multi-Agent Inference (arXiv 2604.04929) as a LangGraph state machine.

    START ─► small_agent_short ─┐
          └► large_agent_short ─┴► verifier_short ─ agreement ─► END
                                        │ differ
                                        ▼
            small_agent_think ─► small_agent_answer ─► verifier_reasoned ─ reasoned_agreement ─► END
                                                             │ differ
                                                             ▼
                                                         transfer ─► large_agent_answer ─ transfer ─► END

What each edge decides stands in `mai_graph.policy`, what each model reads in ``prompts/``.
"""

import logging
from collections.abc import Callable
from typing import Any, Literal

from langchain_core.messages import AIMessage, BaseMessage
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import get_runtime
from langgraph.types import Checkpointer

from mai_graph.agents import Agent, Messages, ModelLike, ReplyKey, Then, Update, call_node, make_agent
from mai_graph.compiled import MAIGraph
from mai_graph.config import MAIConfig, parse_config
from mai_graph.node import inline
from mai_graph.policy import after_reasoned, after_short, after_think, after_transfer, settle
from mai_graph.prompts import PromptSet, load_prompts
from mai_graph.question import question_of
from mai_graph.state import Output, Reply, Route, Start, State
from mai_graph.transfer import shorten
from mai_graph.verifier import verify

logger = logging.getLogger(__name__)


def create_mai(
    small: ModelLike,
    large: ModelLike,
    *,
    checkpointer: Checkpointer = None,
    name: str = "MAI",
    **options: Any,
) -> MAIGraph:
    """Make the graph of a small and a large vision-language model that answer together.

    Args:
        small: The model that reasons: an `Endpoint`, a pair (URL, model name), or any LangChain chat model. The last
            is used as it is: token limits, temperature, logprobs and retries are its own.
        large: The model that decides in a few tokens; the same kinds.
        checkpointer: LangGraph's, to keep runs.
        name: The graph's name where it is a node of another graph.
        **options: Fields of `MAIConfig`; one run can change most of them with ``context={...}``.

    Returns:
        A compiled graph: ``invoke``, ``ainvoke``, ``stream`` and ``astream`` take `mai_graph.state.Input` and end in
        `mai_graph.state.Output`. It is a LangChain Runnable and works as a node of a ``MessagesState`` graph.

    Raises:
        ConfigError: Naming the option that is wrong.
    """
    config = parse_config(options)
    load_prompts(config.prompts)
    small_agent, large_agent = make_agent("small", small), make_agent("large", large)

    graph = StateGraph(State, context_schema=MAIConfig, input_schema=Start, output_schema=Output)

    def add_call(node: str, agent: Agent, reply: ReplyKey, messages: Messages, then: Then | None = None) -> None:
        graph.add_node(node, call_node(node, agent, reply, messages, then), retry_policy=agent.retry_policy)

    add_call("small_agent_short", small_agent, "small_short", short_messages)
    add_call("large_agent_short", large_agent, "large_short", short_messages)
    graph.add_node("verifier_short", inline(verifier_short))
    add_call("small_agent_think", small_agent, "reasoning", think_messages)
    add_call("small_agent_answer", small_agent, "small_reasoned", answer_messages)
    graph.add_node("verifier_reasoned", inline(verifier_reasoned))
    graph.add_node("transfer", inline(transfer))
    add_call("large_agent_answer", large_agent, "large_answer", transfer_messages, then=large_answered)

    graph.add_edge(START, "small_agent_short")
    graph.add_edge(START, "large_agent_short")
    graph.add_edge(["small_agent_short", "large_agent_short"], "verifier_short")
    graph.add_conditional_edges(
        "verifier_short",
        inline(after_short),
        {"agreement": END, "without_small": END, "differ": "small_agent_think"},
    )
    graph.add_conditional_edges(
        "small_agent_think",
        inline(after_think),
        {"two_stage": "small_agent_answer", "one_stage": "verifier_reasoned", "without_reasoning": "verifier_reasoned"},
    )
    graph.add_edge("small_agent_answer", "verifier_reasoned")
    graph.add_conditional_edges(
        "verifier_reasoned",
        inline(after_reasoned),
        {"reasoned_agreement": END, "without_large": END, "without_small": END, "differ": "transfer"},
    )
    graph.add_edge("transfer", "large_agent_answer")
    graph.add_conditional_edges(
        "large_agent_answer",
        inline(after_transfer),
        {"transfer": END, "without_large": END, "too_long": "transfer"},
    )
    return MAIGraph.of(graph.compile(checkpointer=checkpointer, name=name), config)


def verifier_short(state: State) -> Update:
    """Verifier: do the two short answers agree?"""
    return _verify(state, state["small_short"], after_short)


def verifier_reasoned(state: State) -> Update:
    """Verifier: does the small model's answer after reasoning agree with the large model's short answer?"""
    second, reasoning = state["small_reasoned"], state["reasoning"]
    # One-stage, or the second stage failed: the answer is the one R itself ends with.
    reply = reasoning if second is None or second["error"] else second
    assert reply is not None
    return _verify(state, reply, after_reasoned)


def transfer(state: State) -> Update:
    """Transfer: R, whole, becomes reading for the large model; shortened by half each time it did not fit."""
    prompts, before = load_prompts(get_runtime(MAIConfig).context.prompts), state["transferred"]
    reasoning = _reasoning(state, prompts)
    keep = before["characters"] // 2 if before else len(reasoning)
    return {"transferred": shorten(reasoning, keep, prompts.left_out)}


def large_answered(state: State) -> Update:
    """What a run ends with once the large model has read R, unless R has to be shortened first."""
    decision = after_transfer(state)
    return {} if decision == "too_long" else _end(state, decision)


def short_messages(state: State, prompts: PromptSet) -> list[BaseMessage]:
    """Both models, at the same time: the question, to be answered shortly."""
    return prompts.simple_messages(question_of(state))


def think_messages(state: State, prompts: PromptSet) -> list[BaseMessage]:
    """The small model: the question, to be reasoned about."""
    return prompts.think_messages(question_of(state))


def answer_messages(state: State, prompts: PromptSet) -> list[BaseMessage]:
    """The small model: its reasoning behind it, the question to be answered shortly (S2)."""
    return prompts.answer_messages(question_of(state), _reasoning(state, prompts))


def transfer_messages(state: State, prompts: PromptSet) -> list[BaseMessage]:
    """The large model: the question, with the small model's reasoning to read."""
    transferred = state["transferred"]
    assert transferred is not None
    return prompts.transfer_messages(question_of(state), transferred["text"])


def _reasoning(state: State, prompts: PromptSet) -> str:
    reasoning = state["reasoning"]
    assert reasoning is not None
    return reasoning["text"] + (prompts.cut_off if reasoning["truncated"] else "")


def _verify(state: State, small: Reply, decide: Callable[[State], Route | Literal["differ"]]) -> Update:
    config = get_runtime(MAIConfig).context
    verdict = verify(
        small["answer"],
        state["large_short"]["answer"],
        metric=state["metric"] or config.metric,
        options=state["options"],
        anls_threshold=config.anls_threshold,
    )
    judged: State = {**state, "verdict": verdict}
    route = decide(judged)
    return {"verdict": verdict, **({} if route == "differ" else _end(judged, route))}


def _end(state: State, route: Route) -> Update:
    outcome = settle(state, route)
    level = logging.WARNING if outcome["degraded"] else logging.INFO
    logger.log(level, "question %s: route %s, degraded: %s", state["question_id"], route, outcome["degraded"])
    # A conversation gets its answer as a message; a plain question gets it as a field only.
    said = [AIMessage(outcome["answer"], name="mai")] if state["question"] is None else []
    return {**outcome, "messages": said}
