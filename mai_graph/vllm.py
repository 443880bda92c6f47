"""`ChatVLLM`: langchain-openai's chat model, keeping what vLLM adds to the OpenAI API and `ChatOpenAI` drops."""

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

import httpx2
import openai
from langchain_core.messages import AIMessage, AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_openai import ChatOpenAI
from pydantic import Field

# vLLM's HTTP server closes a connection after 5 idle seconds; one that is reused just then fails, so ours end earlier.
_LIMITS = httpx2.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=3)


class _LoopTransport(httpx2.AsyncBaseTransport):
    """Connections of each event loop's own.

    A pooled connection belongs to the loop that opened it, and a later loop fails with "Event loop is closed" when it
    finds it in the pool: a second ``asyncio.run`` would lose its first calls.
    """

    def __init__(self) -> None:
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncHTTPTransport] = WeakKeyDictionary()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        loop = asyncio.get_running_loop()
        transport = self._of_loop.get(loop)
        if transport is None:
            transport = self._of_loop[loop] = httpx2.AsyncHTTPTransport(limits=_LIMITS)
        return await transport.handle_async_request(request)


def _async_client() -> httpx2.AsyncClient:
    return openai.DefaultAsyncHttpxClient(transport=_LoopTransport())


class ChatVLLM(ChatOpenAI):
    """A vLLM server's chat model.

    The text that vLLM's reasoning parser splits off (https://docs.vllm.ai/en/latest/features/reasoning_outputs.html)
    is kept as ``additional_kwargs["reasoning_content"]``, where LangChain's ``message.content_blocks`` finds it.
    """

    http_async_client: Any = Field(default_factory=_async_client, exclude=True)
    """Made here, so that one model can serve several event loops, one after the other or at the same time."""

    @property
    def _llm_type(self) -> str:
        return "vllm"

    def _create_chat_result(
        self, response: dict[str, Any] | openai.BaseModel, generation_info: dict[str, Any] | None = None
    ) -> ChatResult:
        result = super()._create_chat_result(response, generation_info)
        body = response if isinstance(response, dict) else response.model_dump(warnings=False)
        for choice, generation in zip(body["choices"], result.generations, strict=True):
            if isinstance(generation.message, AIMessage):
                _keep_vllms_own(choice["message"], generation.message)
        return result

    def _convert_chunk_to_generation_chunk(
        self, chunk: dict[str, Any], default_chunk_class: type, base_generation_info: dict[str, Any] | None
    ) -> ChatGenerationChunk | None:
        generation = super()._convert_chunk_to_generation_chunk(chunk, default_chunk_class, base_generation_info)
        choices = chunk.get("choices")
        if generation and choices and isinstance(generation.message, AIMessageChunk):
            _keep_vllms_own(choices[0]["delta"], generation.message)
        return generation


def _keep_vllms_own(part: dict[str, Any], message: AIMessage) -> None:
    # As "openai" LangChain would look for OpenAI's own reasoning items only.
    message.response_metadata["model_provider"] = "vllm"
    reasoning = part.get("reasoning") or part.get("reasoning_content")  # vLLM's name now, and before 0.11
    if reasoning:
        message.additional_kwargs["reasoning_content"] = reasoning
