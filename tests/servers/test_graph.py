"""The graph on two real vLLM servers with the miniature pair."""

import asyncio
import os
import signal
from itertools import count, islice
from typing import Any

import pytest

from mai_graph import MAIError, create_mai
from mai_servers import launch
from mai_servers.tiny.scenes import Example, make_question
from tests.conftest import Servers

pytestmark = pytest.mark.servers

ROUTES = ("agreement", "reasoned_agreement", "transfer")


def asked(example: Example) -> dict[str, Any]:
    return {"question": example.question, "images": [example.image()], "options": list(example.options)}


@pytest.fixture(scope="module")
def results(servers: Servers) -> dict[str, dict[str, Any]]:
    """The first result of each route, over held-out questions with four options.

    Their shared part fills a block of the prefix cache, 32 tokens on a CPU; that of a shorter question often doesn't.
    """
    graph, found = create_mai(servers.small, servers.large), dict[str, dict[str, Any]]()
    for example in islice((e for e in map(make_question, count(10_000)) if len(e.options) == 4), 200):
        result = graph.invoke(asked(example))
        found.setdefault(result["route"], result)
        if found.keys() >= set(ROUTES):
            break
    return found


def step(result: dict[str, Any], node: str) -> dict[str, Any]:
    return next(step for step in result["steps"] if step["node"] == node)


def test_every_route_is_taken_and_none_is_degraded(results: dict[str, dict[str, Any]]) -> None:
    assert set(results) == set(ROUTES)
    assert all(result["degraded"] is None for result in results.values())


def test_the_second_call_to_each_server_reads_the_picture_from_the_prefix_cache(
    results: dict[str, dict[str, Any]],
) -> None:
    for node in ("small_agent_think", "small_agent_answer", "large_agent_answer"):
        read = step(results["transfer"], node)
        assert 0 < read["cached_tokens"] < read["prompt_tokens"], node


def test_the_second_stage_reads_the_reasoning_itself_from_the_prefix_cache(results: dict[str, dict[str, Any]]) -> None:
    think, answer = (step(results["transfer"], f"small_agent_{call}") for call in ("think", "answer"))
    assert answer["cached_tokens"] > think["prompt_tokens"]


def test_short_answers_are_short_and_carry_a_confidence(results: dict[str, dict[str, Any]]) -> None:
    for result in results.values():
        assert 0 < result["confidence"] <= 1
        for recorded in result["steps"]:
            assert recorded["finish_reason"] == "stop"
            if recorded["node"] != "small_agent_think":
                assert recorded["completion_tokens"] < 10


async def test_the_same_question_gets_the_same_answer_whatever_else_is_asked(servers: Servers) -> None:
    graph = create_mai(servers.small, servers.large)
    first, *others = await asyncio.gather(*(graph.ainvoke(asked(make_question(seed))) for seed in (7, *range(20), 7)))
    assert first["reasoning"] == others[-1]["reasoning"]
    assert (first["answer"], first["route"]) == (others[-1]["answer"], others[-1]["route"])


def test_one_graph_serves_several_event_loops_one_after_the_other(servers: Servers) -> None:
    graph = create_mai(servers.small, servers.large)
    for seed in range(4):
        result = asyncio.run(graph.ainvoke(asked(make_question(seed))))
        assert result["degraded"] is None
        assert [record["retries"] for record in result["steps"]] == [0] * len(result["steps"])


async def test_tokens_of_the_reasoning_are_streamed_as_they_come(servers: Servers) -> None:
    graph = create_mai(servers.small, servers.large, two_stage=False)
    for seed in count(20_000):
        written = [
            str(chunk.content)
            async for chunk, metadata in graph.astream(asked(make_question(seed)), stream_mode="messages")
            if metadata["langgraph_node"] == "small_agent_think" and chunk.content
        ]
        if written:
            break
    assert len(written) > 10
    assert "Answer:" in "".join(written)


async def test_reasoning_beyond_the_large_models_context_is_shortened(servers: Servers) -> None:
    from tests.scripted import Scripted

    words = " ".join(f"Row {i}: red circle, empty, blue square, empty." for i in range(400))
    talker = Scripted(says={"simple": "no", "think": words, "answer": "perhaps"})
    result = await create_mai(talker, servers.large).ainvoke(asked(make_question(1)))
    assert "shortened from its middle" in result["degraded"]
    # What the miniature makes of a thousand tokens it was never trained on is another matter.
    assert [record["error"] is None for record in result["steps"]][-2:] == [False, True]


async def test_killing_the_small_server_amid_fifty_questions_loses_none(servers: Servers) -> None:
    config = launch.load_config("tiny-cpu").on_free_ports()
    with launch.serve(config, only="small") as pair:
        small = servers.small.model_copy(update={"url": pair.small.url})
        graph = create_mai(small, servers.large)
        runs = [asyncio.create_task(graph.ainvoke(asked(make_question(30_000 + i)))) for i in range(50)]
        await asyncio.wait(runs, return_when=asyncio.FIRST_COMPLETED)
        os.killpg(pair.small.pid, signal.SIGKILL)
        ends = await asyncio.gather(*runs, return_exceptions=True)
    assert len(ends) == 50
    degraded = 0
    for end in ends:
        if isinstance(end, BaseException):
            assert isinstance(end, MAIError)
        else:
            assert end["answer"]
            degraded += end["degraded"] is not None
            assert end["degraded"] is None or small.url in end["degraded"]
    assert degraded > 0
