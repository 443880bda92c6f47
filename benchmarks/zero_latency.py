"""An OpenAI-compatible chat server without a model: it answers at once, so what a client costs is all that is left.

``/small/v1`` and ``/large/v1`` never agree, so a question asked to both takes the longest route. Started by
`overhead.py`; alone: ``uvicorn zero_latency:app``.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

# What a small model writes under the `think` prompt, about as long as the miniature one's.
REASONING = "Row 1: red circle, empty, blue square. Row 2: empty, red star, empty. That makes 2 red things.\nAnswer: "


def _body(answer: str) -> bytes:
    token = {"token": answer, "logprob": -0.1, "bytes": list(answer.encode()), "top_logprobs": []}
    return json.dumps(
        {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": "none",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": REASONING + answer},
                    "logprobs": {"content": [token]},
                }
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": 40,
                "total_tokens": 140,
                "prompt_tokens_details": {"cached_tokens": 64},
            },
        }
    ).encode()


_BODIES = {"/small/v1/chat/completions": _body("1"), "/large/v1/chat/completions": _body("2")}


async def app(
    scope: dict[str, Any], receive: Callable[[], Awaitable[Any]], send: Callable[[Any], Awaitable[None]]
) -> None:
    """The ASGI application."""
    body = _BODIES.get(scope["path"], b"")
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200 if body else 404, "headers": headers})
    await send({"type": "http.response.body", "body": body})
