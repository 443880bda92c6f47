"""The first requests to a server, so that no user waits for what happens only once: kernels, caches, connections.

They also show that the server can do what the graph asks of it: read a picture, and return log probabilities.
"""

import base64
import io

import httpx
from PIL import Image

from mai_servers.errors import LaunchError

# A short answer with log probabilities, then as many tokens as a reasoning has in the miniature pair.
_SHORT, _LONG = 8, 128


def warm_up(url: str, model: str, api_key: str | None, timeout: float) -> None:
    """Send a short and a long request with a picture.

    Args:
        url: Base URL of the server's API, ending in /v1.
        model: Served model name.
        api_key: What the server wants as bearer token, if anything.
        timeout: Seconds to wait for each answer.

    Raises:
        LaunchError: The server refuses one.
        httpx.TransportError: It is gone or doesn't answer in time.
    """
    picture = io.BytesIO()
    Image.new("RGB", (512, 384), "white").save(picture, "PNG")
    data_url = f"data:image/png;base64,{base64.b64encode(picture.getvalue()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": data_url}}, {"type": "text", "text": "What is it?"}]
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    with httpx.Client(headers=headers, timeout=timeout, trust_env=False) as client:
        for max_tokens in (_SHORT, _LONG):
            answer = client.post(
                f"{url}/chat/completions",
                json={
                    "model": model,
                    "messages": [{"role": "user", "content": content}],
                    "max_tokens": max_tokens,
                    "ignore_eos": True,
                    "temperature": 0,
                    "logprobs": True,
                    "top_logprobs": 1,
                },
            )
            if answer.is_error:
                raise LaunchError(
                    f"{model} is up but refuses a question with a picture and log probabilities "
                    f"(HTTP {answer.status_code}): {answer.text[:500]}",
                    "Is it a vision-language model, and does its max-model-len hold a picture and 128 tokens?",
                )
