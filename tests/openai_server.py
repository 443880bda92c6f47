"""A model's server as a client sees it: OpenAI's API, answering what a test wrote."""

import json
from dataclasses import dataclass, field
from typing import Any

from langchain_core.messages import convert_to_messages
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from tests.scripted import Call, call_of


@dataclass
class FakeServer:
    """Serves one model; the fields may be changed at any time.

    Attributes:
        says: What it answers to each of the four prompts; the simple prompt's answer to any other.
        logprobs: Whether it returns logprobs when asked for them.
        cached_tokens: Reported as read from the prefix cache; None: not reported.
        problem: An HTTP status and a message, instead of an answer.
        requests: The bodies of the chat requests it got.
    """

    url: str
    model: str
    says: dict[Call, str]
    logprobs: bool = True
    cached_tokens: int | None = 512
    problem: tuple[int, str] | None = None
    requests: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def on(cls, httpserver: HTTPServer, model: str, says: dict[Call, str]) -> "FakeServer":
        """Serve `model` below a path of its own."""
        server = cls(httpserver.url_for(f"/{model}/v1"), model, says)
        httpserver.expect_request(f"/{model}/v1/models").respond_with_handler(server._models)
        httpserver.expect_request(f"/{model}/v1/chat/completions").respond_with_handler(server._chat)
        return server

    def _models(self, request: Request) -> Response:
        return _json({"object": "list", "data": [{"id": self.model, "object": "model", "created": 0, "owned_by": ""}]})

    def _chat(self, request: Request) -> Response:
        body = request.get_json()
        self.requests.append(body)
        if self.problem:
            status, message = self.problem
            return _json({"error": {"message": message, "code": status}}, status)
        text = self.says[call_of(convert_to_messages(body["messages"]))]
        token = {"token": text, "logprob": -0.1, "bytes": None, "top_logprobs": []}
        choice = {
            "index": 0,
            "message": {"role": "assistant", "content": text},
            "finish_reason": "stop",
            "logprobs": {"content": [token]} if self.logprobs and body.get("logprobs") else None,
        }
        usage: dict[str, Any] = {"prompt_tokens": 600, "completion_tokens": 7, "total_tokens": 607}
        if self.cached_tokens is not None:
            usage["prompt_tokens_details"] = {"cached_tokens": self.cached_tokens}
        completion = {"id": "1", "object": "chat.completion", "created": 0, "model": self.model}
        return _json({**completion, "choices": [choice], "usage": usage})


def _json(body: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(body), status, mimetype="application/json")
