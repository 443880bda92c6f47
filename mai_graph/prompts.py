"""Prompt sets: their texts live in ``prompts/<name>/prompts.toml``, never in code; here they become chat messages.

Inside every prompt the order is images, question, options, then what differs, so that all calls to one server share
their longest prefix and vLLM's prefix cache (https://docs.vllm.ai/en/latest/features/automatic_prefix_caching.html)
skips the images and the question from the second call on.
"""

import string
import tomllib
from functools import lru_cache
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from mai_graph.errors import ConfigError
from mai_graph.question import Question

_PACKAGE = Path(__file__).parent
# In a wheel the sets lie inside the package, in a checkout beside it.
_SETS = next((d for d in (_PACKAGE / "prompt_sets", _PACKAGE.parent / "prompts") if d.is_dir()), _PACKAGE)

_PLACEHOLDERS = {
    "option": {"letter", "text"},
    "simple": {"question"},
    "think": {"question"},
    "answer": set[str](),
    "transfer": {"question", "reasoning"},
}


class PromptSet(BaseModel):
    """The texts of one named, versioned prompt set, each a `str.format` template."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=False)

    version: int = Field(ge=1, description="Raised with every change of wording.")
    needs_image: bool = Field(description="Whether a question without a picture is refused.")
    option: str = Field(description="One option below the question: {letter} and {text}.")
    simple: str = Field(description="Asks for the short answer: {question}.")
    think: str = Field(description="Asks for the reasoning R, ending in an answer line: {question}.")
    answer: str = Field(description="The user's turn after R that asks for the formatted short answer (S2).")
    transfer: str = Field(description="Asks the large model, which reads R first: {question} and {reasoning}.")
    cut_off: str = Field(description="Marks the end of an R that met its token limit.")
    left_out: str = Field(description="Marks where the middle of R was left out to fit a context.")

    @field_validator(*_PLACEHOLDERS)
    @classmethod
    def _placeholders_are_right(cls, text: str, info: object) -> str:
        expected = _PLACEHOLDERS[info.field_name]  # type: ignore[attr-defined]
        found = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
        if found != expected:
            raise ValueError(f"has the placeholders {sorted(found)}, needs {sorted(expected)}")
        return text.strip()

    def simple_messages(self, question: Question) -> list[BaseMessage]:
        """The conversation that asks for a short answer at once (paper: 'S')."""
        return [self._user(question, self.simple.format(question=self._block(question)))]

    def think_messages(self, question: Question) -> list[BaseMessage]:
        """The conversation that asks for reasoning (paper: 'R')."""
        return [self._user(question, self.think.format(question=self._block(question)))]

    def answer_messages(self, question: Question, reasoning: str) -> list[BaseMessage]:
        """The reasoning conversation continued: R is the assistant's turn, so its own KV cache is reused (S2)."""
        return [*self.think_messages(question), AIMessage(reasoning), HumanMessage(self.answer)]

    def transfer_messages(self, question: Question, reasoning: str) -> list[BaseMessage]:
        """The conversation in which the large model reads R, then answers shortly (reasoning transfer)."""
        text = self.transfer.format(question=self._block(question), reasoning=reasoning)
        return [self._user(question, text)]

    def _block(self, question: Question) -> str:
        lines = [self.option.format(letter=letter, text=text) for letter, text in question.lettered_options()]
        return "\n".join([question.text, *lines])

    @staticmethod
    def _user(question: Question, text: str) -> HumanMessage:
        return HumanMessage([*question.images, {"type": "text", "text": text}])


@lru_cache
def load_prompts(name: str) -> PromptSet:
    """Read a prompt set.

    Args:
        name: Name of a bundled set, or path of a folder that holds a ``prompts.toml``.

    Raises:
        ConfigError: When there is no such set, or its file is not valid.
    """
    bundled = _SETS / name / "prompts.toml"
    path = bundled if bundled.is_file() else Path(name) / "prompts.toml"
    if not path.is_file():
        names = ", ".join(sorted(d.name for d in _SETS.iterdir() if d.is_dir()))
        raise ConfigError(
            "prompts", f"no prompt set {name!r}", f"Bundled sets: {names}; or name a folder with prompts.toml."
        )
    try:
        return PromptSet.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as invalid:
        raise ConfigError("prompts", f"{path} is not valid TOML: {invalid}", "Mend it there.") from None
    except ValidationError as invalid:
        first = invalid.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ConfigError(
            "prompts", f"{path}, {field!r}: {first['msg']}", "Mend it there; see prompts/default."
        ) from None
