"""Calls over HTTP: what is sent, what is kept of the response, what is tried again and what is not."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from mai_graph import ChatVLLM, Endpoint, UnavailableError, create_mai
from tests.scripted import PIXEL, Scripted

QUESTION = {"question": "How many circles are there?", "images": [PIXEL]}
NOWHERE = "http://127.0.0.1:9/v1"


def completion(text: str, **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "large",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, **message},
                "finish_reason": "stop",
                "logprobs": {
                    "content": [
                        {"token": "3", "logprob": -0.5, "bytes": None, "top_logprobs": []},
                        {"token": "", "logprob": -1.5, "bytes": None, "top_logprobs": []},
                    ]
                },
            }
        ],
        "usage": {
            "prompt_tokens": 40,
            "completion_tokens": 2,
            "total_tokens": 42,
            "prompt_tokens_details": {"cached_tokens": 32},
        },
    }


Answer = dict[str, Any] | Response


@pytest.fixture
def serve(httpserver: HTTPServer) -> Callable[..., list[dict[str, Any]]]:
    """Make the server give these answers in turn, the last one for ever; returns the requests it gets."""

    def answer_with(*answers: Answer) -> list[dict[str, Any]]:
        left, requests = list(answers), []

        def handle(request: Request) -> Response:
            requests.append(request.get_json() | {"authorization": request.headers.get("Authorization")})
            answer = left.pop(0) if len(left) > 1 else left[0]
            return answer if isinstance(answer, Response) else Response(json.dumps(answer), mimetype="application/json")

        httpserver.expect_request("/v1/chat/completions").respond_with_handler(handle)
        return requests

    return answer_with


def problem(status: int, message: str = "no") -> Response:
    return Response(json.dumps({"error": {"message": message, "code": status}}), status, mimetype="application/json")


def small(**says: Any) -> Scripted:
    return Scripted(says={"simple": "3", "think": "Answer: 3", "answer": "3"} | says)


def endpoint(httpserver: HTTPServer, **settings: Any) -> Endpoint:
    return Endpoint(url=httpserver.url_for("/v1"), model="large", **settings)


def large_step(result: dict[str, Any]) -> dict[str, Any]:
    return next(step for step in result["steps"] if step["node"] == "large_agent_short")


def test_the_request_is_greedy_short_and_asks_for_logprobs(httpserver: HTTPServer, serve: Any) -> None:
    requests = serve(completion("3"))
    create_mai(small(), endpoint(httpserver, api_key="secret")).invoke(QUESTION)
    sent = requests[0]
    assert (sent["model"], sent["temperature"], sent["max_completion_tokens"]) == ("large", 0, 32)
    assert sent["logprobs"] is True
    assert sent["authorization"] == "Bearer secret"
    picture, text = sent["messages"][0]["content"]
    assert picture == {"type": "image_url", "image_url": {"url": PIXEL}}
    assert text["text"].startswith(QUESTION["question"])


def test_the_step_records_tokens_and_the_reply_its_confidence(httpserver: HTTPServer, serve: Any) -> None:
    serve(completion("3"))
    result = create_mai(small(), endpoint(httpserver)).invoke(QUESTION)
    step = large_step(result)
    assert (step["prompt_tokens"], step["cached_tokens"], step["completion_tokens"]) == (40, 32, 2)
    assert (step["finish_reason"], step["retries"], step["error"]) == ("stop", 0, None)
    assert step["duration"] > 0
    assert result["confidence"] == pytest.approx(0.3679, abs=1e-4), "exp of the mean of -0.5 and -1.5"


@pytest.mark.parametrize("status", [429, 500, 503])
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_passing_fault_of_the_server_is_tried_again(
    httpserver: HTTPServer, serve: Any, status: int, mode: str
) -> None:
    requests = serve(problem(status), completion("3"))
    graph = create_mai(small(), endpoint(httpserver))
    result = graph.invoke(QUESTION) if mode == "sync" else await graph.ainvoke(QUESTION)
    assert len(requests) == 2
    assert (result["route"], result["degraded"]) == ("agreement", None)
    assert large_step(result)["retries"] == 1


def test_a_lasting_fault_is_given_up_after_the_set_number_of_retries(httpserver: HTTPServer, serve: Any) -> None:
    requests = serve(problem(503, "overloaded"))
    result = create_mai(small(), endpoint(httpserver, max_retries=1)).invoke(QUESTION)
    assert len(requests) == 2
    assert result["route"] == "without_large"
    assert "overloaded" in result["degraded"]
    assert large_step(result)["retries"] == 1


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "bad request"), (401, "who are you"), (404, "The model `large` does not exist."), (409, "conflict")],
)
def test_what_a_second_try_cannot_mend_is_not_tried_again(
    httpserver: HTTPServer, serve: Any, status: int, message: str
) -> None:
    requests = serve(problem(status, message))
    result = create_mai(small(), endpoint(httpserver)).invoke(QUESTION)
    assert len(requests) == 1
    assert message in result["degraded"]
    assert httpserver.url_for("/v1") in result["degraded"]


def test_a_call_that_takes_too_long_is_given_up_and_not_tried_again(httpserver: HTTPServer) -> None:
    requests = []

    def stall(request: Request) -> Response:
        requests.append(request)

        def never() -> Iterator[bytes]:
            import time

            time.sleep(1.5)
            yield b"{}"

        return Response(never(), mimetype="application/json")

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(stall)
    result = create_mai(small(), endpoint(httpserver, timeout=0.3)).invoke(QUESTION)
    assert len(requests) == 1
    assert "Timeout" in result["degraded"]


def test_a_refused_connection_is_tried_again_then_said() -> None:
    nowhere = Endpoint(url=NOWHERE, model="large", max_retries=1)
    result = create_mai(small(), nowhere).invoke(QUESTION)
    assert (result["answer"], result["route"]) == ("3", "without_large")
    assert NOWHERE in result["degraded"]
    assert large_step(result)["retries"] == 1


async def test_both_servers_down_is_an_error_naming_both_urls() -> None:
    ends = [Endpoint(url=f"http://127.0.0.1:{port}/v1", model="m", max_retries=0) for port in (9, 10)]
    graph = create_mai(*ends)
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9/v1.*127\.0\.0\.1:10/v1"):
        graph.invoke(QUESTION)
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:9/v1.*127\.0\.0\.1:10/v1"):
        await graph.ainvoke(QUESTION)


def test_vllm_words_for_a_prompt_beyond_the_context_shorten_the_reasoning(httpserver: HTTPServer, serve: Any) -> None:
    overflow = problem(400, "This model's maximum context length is 2048 tokens. However, your prompt contains 2100.")
    requests = serve(completion("5"), overflow, completion("4"))
    words = " ".join(f"word{i}" for i in range(300))
    result = create_mai(small(think=words), endpoint(httpserver)).invoke(QUESTION)
    assert (result["answer"], result["route"]) == ("4", "transfer")
    assert "shortened from its middle" in result["degraded"]
    assert len(requests) == 3


def test_a_body_that_is_no_completion_is_a_failed_call(httpserver: HTTPServer, serve: Any) -> None:
    serve(Response("<html>proxy error</html>", mimetype="text/html"))
    result = create_mai(small(), endpoint(httpserver, max_retries=0)).invoke(QUESTION)
    assert result["route"] == "without_large"
    assert large_step(result)["error"]


def chat(httpserver: HTTPServer) -> ChatVLLM:
    return ChatVLLM(base_url=httpserver.url_for("/v1"), model="large", api_key="EMPTY", stream_usage=True)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_what_a_reasoning_parser_split_off_is_kept(httpserver: HTTPServer, serve: Any, field: str) -> None:
    serve(completion("3", **{field: "I count three."}))
    for message in (chat(httpserver).invoke("Q?"), await chat(httpserver).ainvoke("Q?")):
        assert message.additional_kwargs["reasoning_content"] == "I count three."
        assert [block["type"] for block in message.content_blocks] == ["reasoning", "text"]


def test_without_a_reasoning_parser_nothing_is_added(httpserver: HTTPServer, serve: Any) -> None:
    serve(completion("3"))
    message = chat(httpserver).invoke("Q?")
    assert isinstance(message, AIMessage)
    assert "reasoning_content" not in message.additional_kwargs


async def test_reasoning_and_usage_are_kept_when_streaming(httpserver: HTTPServer, serve: Any) -> None:
    deltas = [
        {"role": "assistant", "content": ""},
        {"reasoning": "I count "},
        {"reasoning": "three."},
        {"content": "3"},
    ]
    chunks: list[dict[str, Any]] = [
        {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "large", "choices": [choice]}
        for choice in [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    ]
    chunks[-1]["choices"][0]["finish_reason"] = "stop"
    usage = {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    chunks.append(
        {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": "large", "choices": [], "usage": usage}
    )
    events = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
    serve(Response(events, mimetype="text/event-stream"))
    whole: Any = None
    for chunk in chat(httpserver).stream("Q?"):
        whole = chunk if whole is None else whole + chunk
    assert whole.content == "3"
    assert whole.additional_kwargs["reasoning_content"] == "I count three."
    assert whole.usage_metadata["input_token_details"]["cache_read"] == 4
