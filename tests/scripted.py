"""A chat model that says what a test wrote for it, for what real servers can't be made to say."""

from collections.abc import Iterator
from typing import Any, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import Field

from mai_graph.prompts import load_prompts

Call = Literal["simple", "think", "answer", "transfer"]
Said = str | AIMessage | Exception

# A picture of four white pixels.
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAIAAAACCAIAAAD91JpzAAAAFklEQVR4nG"
    "P8//8/AwMDEwMDAwMDAwAkBgMB/DXemwAAAABJRU5ErkJggg=="
)


class Scripted(BaseChatModel):
    """Says `says[call]`, or the items of a list one after the other; an exception is raised."""

    says: dict[str, Any]
    heard: list[list[BaseMessage]] = Field(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for word in str(self._next(messages).content).split(" "):
            chunk = ChatGenerationChunk(message=AIMessageChunk(word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk

    def _next(self, messages: list[BaseMessage]) -> AIMessage:
        self.heard.append(messages)
        said = self.says[call_of(messages)]
        said = said.pop(0) if isinstance(said, list) else said
        if isinstance(said, Exception):
            raise said
        return AIMessage(said) if isinstance(said, str) else said


def call_of(messages: list[BaseMessage]) -> Call:
    """Which of the four prompts these messages are."""
    prompts, text = load_prompts("default"), str(messages[-1].text)
    if text == prompts.answer:
        return "answer"
    if text.endswith(prompts.think.splitlines()[-1]):
        return "think"
    return "transfer" if prompts.transfer.splitlines()[1] in text else "simple"
