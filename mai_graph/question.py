"""From what a caller gives to a question the models can be asked: checked and read once, before any model is called."""

import os
import string
import uuid
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeAlias, get_args

from langchain_core.messages import AnyMessage, HumanMessage, convert_to_messages

from mai_graph.config import MAIConfig, Metric
from mai_graph.errors import InputError
from mai_graph.images import ImageLimits, LoadedImage, from_content_block, load_image, to_content_block
from mai_graph.state import Input, Start, State

ContentBlock: TypeAlias = dict[str, Any]
"""A LangChain standard content block."""


class Question(NamedTuple):
    """One question as the prompts need it."""

    text: str
    images: list[ContentBlock]
    options: list[str]
    metric: Metric | None

    def lettered_options(self) -> Iterator[tuple[str, str]]:
        """Each option with its letter: ("A", "red"), ("B", "blue"), ..."""
        return zip(string.ascii_uppercase, self.options, strict=False)


def question_of(state: State) -> Question:
    """The question a state holds: its own fields, or else its last message."""
    options, metric = state["options"], state["metric"]
    if state["question"] is not None:
        return Question(
            state["question"], [to_content_block(data_url) for data_url in state["images"]], options, metric
        )
    blocks = _blocks(state["messages"][-1])
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    return Question(text.strip(), [block for block in blocks if block["type"] != "text"], options, metric)


def read_input(raw: Mapping[str, Any], config: MAIConfig, *, needs_image: bool, nested: bool) -> Start:
    """Check a caller's input and read its pictures (which may block on files and the network).

    Args:
        raw: The keys of `mai_graph.state.Input`.
        config: Settings of this run.
        needs_image: Whether the run's prompt set asks about pictures.
        nested: Whether the graph runs as a node of another graph, whose state may have keys of its own.

    Returns:
        The state a run starts with, whole, so that nothing is left of an earlier question on the same thread.

    Raises:
        InputError: Naming the field, what is wrong with it and the remedy.
    """
    if not isinstance(raw, Mapping):
        raise InputError("input", f"is a {type(raw).__name__}, not a dict", 'Give {"question": ..., "images": [...]}.')
    if not nested:
        _refuse_unknown(raw)
    options, metric = _options(raw.get("options")), _metric(raw.get("metric"))
    if metric == "choice" and not options:
        raise InputError("metric", "'choice' compares option letters, but there are no options", "Give `options` too.")

    start = Start(
        question=None,
        images=[],
        options=options,
        metric=metric,
        question_id=_question_id(raw.get("question_id")),
        messages=[],
        two_stage=config.two_stage,
        notes=[],
        reasoning=None,
        small_reasoned=None,
        transferred=None,
        large_answer=None,
        verdict=None,
        degraded=None,
    )
    asked_in_messages = raw.get("question") is None and not raw.get("images") and raw.get("messages")
    if asked_in_messages:
        start["messages"], loaded = _read_messages(raw["messages"], config)
    else:
        if raw.get("messages") and not nested:
            raise InputError("messages", "given together with question or images", "Give either of the two.")
        start["question"], loaded = _text(raw.get("question")), _read_images(raw.get("images"), config)
        start["images"] = [image.data_url for image in loaded]
    if needs_image and not loaded:
        where = "messages" if asked_in_messages else "images"
        raise InputError(where, "no picture, and this prompt set asks about pictures", "Give at least one picture.")
    start["notes"] = [image.note for image in loaded if image.note]
    return start


def _refuse_unknown(raw: Mapping[str, Any]) -> None:
    for key in raw:
        if key not in State.__annotations__:
            close = get_close_matches(str(key), Input.__annotations__, n=1)
            remedy = f"Did you mean {close[0]!r}?" if close else f"Known fields: {', '.join(Input.__annotations__)}."
            raise InputError(str(key), "there is no such field", remedy)


def _text(question: object) -> str:
    if question is None:
        raise InputError("question", "missing", 'Give {"question": "...", "images": [...]} or {"messages": [...]}.')
    if not isinstance(question, str):
        raise InputError("question", f"is a {type(question).__name__}, not a string", "Give the question as text.")
    if not question.strip():
        raise InputError("question", "is blank", "Ask something about the picture.")
    return question.strip()


def _question_id(given: object) -> str:
    if given is None or given == "":
        return uuid.uuid4().hex
    if not isinstance(given, str):
        raise InputError("question_id", f"is a {type(given).__name__}, not a string", "Leave it out, or give a string.")
    return given


def _metric(metric: object) -> Metric | None:
    if metric is None or metric == "":
        return None
    if metric not in get_args(Metric):
        raise InputError("metric", f"{metric!r} is unknown", f"Known metrics: {', '.join(get_args(Metric))}.")
    return metric  # type: ignore[return-value]


def _options(options: object) -> list[str]:
    if options is None or options == []:
        return []
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise InputError("options", f"is a {type(options).__name__}, not a list", 'Give texts: ["red", "blue"].')
    for index, option in enumerate(options):
        if not isinstance(option, str) or not option.strip():
            raise InputError(
                f"options[{index}]", f"{option!r} is not a text", "Give each option as a non-empty string."
            )
    texts = [option.strip() for option in options]
    if len(texts) == 1:
        raise InputError("options", f"only one, {texts[0]!r}", "Give at least two, or none for an open question.")
    if len(texts) > len(string.ascii_uppercase):
        raise InputError("options", f"{len(texts)} of them, more than there are letters", "Give at most 26.")
    folded = [text.casefold() for text in texts]
    for index, text in enumerate(folded):
        if (first := folded.index(text)) != index:
            raise InputError(f"options[{index}]", f"{texts[index]!r} is also options[{first}]", "Make them differ.")
    return texts


def _read_images(images: object, config: MAIConfig) -> list[LoadedImage]:
    if images is None:
        return []
    if isinstance(images, str | bytes | os.PathLike) or not isinstance(images, Sequence):
        raise InputError("images", f"is a {type(images).__name__}, not a list", "Put it in a list: images=[...].")
    _not_too_many("images", len(images), config)
    for index, source in enumerate(images):
        if not config.local_files and (
            isinstance(source, os.PathLike)
            or (isinstance(source, str) and not source.lstrip().lower().startswith(("http:", "https:", "data:")))
        ):
            raise InputError(
                f"images[{index}]", "paths can't be opened here (local_files is off)", "Give a data URL or http(s) URL."
            )
    return [load_image(source, field=f"images[{i}]", limits=_limits(config)) for i, source in enumerate(images)]


def _read_messages(given: Any, config: MAIConfig) -> tuple[list[AnyMessage], list[LoadedImage]]:
    try:
        messages = convert_to_messages(given)
    except (ValueError, NotImplementedError, TypeError) as error:
        raise InputError("messages", f"can't be read: {error}", "Give LangChain messages.") from error
    last = messages[-1]
    field = f"messages[{len(messages) - 1}]"
    if not isinstance(last, HumanMessage):
        raise InputError(field, f"is a {last.type} message", "The last message must be the human's question.")
    given_blocks = _blocks(last)
    _not_too_many(field, sum(block.get("type") != "text" for block in given_blocks), config)
    blocks, loaded = [], []
    for index, block in enumerate(given_blocks):
        where = f"{field}.content[{index}]"
        if block.get("type") == "text":
            blocks.append(block)
        elif block.get("type") in ("image", "image_url"):
            image = from_content_block(block, field=where, limits=_limits(config))
            blocks.append(to_content_block(image.data_url))
            loaded.append(image)
        else:
            raise InputError(where, f"a block of type {block.get('type')!r}", "Ask with text and image blocks only.")
    if not any(block["type"] == "text" and str(block["text"]).strip() for block in blocks):
        raise InputError(field, "holds no question", "Add a text block with the question.")
    read = last.model_copy(update={"content": blocks if loaded else last.content})
    return [*messages[:-1], read], loaded  # type: ignore[list-item]


def _blocks(message: AnyMessage) -> list[ContentBlock]:
    content = message.content if isinstance(message.content, list) else [message.content]
    return [{"type": "text", "text": block} if isinstance(block, str) else block for block in content]


def _not_too_many(field: str, count: int, config: MAIConfig) -> None:
    if count > config.max_images:
        raise InputError(
            field,
            f"{count} pictures, more than max_images={config.max_images}",
            "Give fewer, or raise max_images and the servers' --limit-mm-per-prompt.",
        )


def _limits(config: MAIConfig) -> ImageLimits:
    return ImageLimits(allow_private_urls=config.allow_private_urls)
