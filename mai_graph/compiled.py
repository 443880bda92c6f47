"""The compiled graph that reads its input once, before the first node.

LangGraph checkpoints a run's raw input. A PIL image or a path would end up there as pickle, or be opened again by each
node; so the input is checked, and its pictures read, on the way in.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, Self

from langchain_core.runnables import RunnableConfig, ensure_config
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command
from pydantic import TypeAdapter

from mai_graph.config import MAIConfig
from mai_graph.prompts import load_prompts
from mai_graph.question import read_input
from mai_graph.state import Input, Output, State


class MAIGraph(CompiledStateGraph[State, MAIConfig, Input, Output]):
    """`create_mai`'s graph: a `CompiledStateGraph` whose input may hold pictures of any kind."""

    defaults: MAIConfig
    """Settings of a run whose context doesn't say otherwise."""

    def __init__(self, *, defaults: MAIConfig, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.defaults = defaults

    @classmethod
    def of(cls, compiled: CompiledStateGraph[Any, Any, Any, Any], defaults: MAIConfig) -> Self:
        """Make it of a compiled graph, in the way LangGraph copies one (`Pregel.copy`)."""
        return cls(**vars(compiled), defaults=defaults)

    def stream(
        self, input: Any, config: RunnableConfig | None = None, *, context: Any = None, **kwargs: Any
    ) -> Iterator[Any]:
        """As in LangGraph; raises `InputError` or `ConfigError` before the first node runs."""
        settings = self.defaults.merged(context)
        yield from super().stream(_read(input, settings, config), config, context=settings, **kwargs)

    async def astream(
        self, input: Any, config: RunnableConfig | None = None, *, context: Any = None, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """As in LangGraph; raises `InputError` or `ConfigError` before the first node runs."""
        settings = self.defaults.merged(context)
        state = await asyncio.to_thread(_read, input, settings, config)
        async for chunk in super().astream(state, config, context=settings, **kwargs):
            yield chunk

    def get_input_jsonschema(self, config: RunnableConfig | None = None) -> dict[str, Any]:
        """JSON schema of `Input`, with titles and descriptions: Studio makes its form of it."""
        return TypeAdapter(Input).json_schema()

    def get_context_jsonschema(self) -> dict[str, Any]:
        """JSON schema of what one run may set, with this graph's defaults: Studio makes its form of it."""
        return self.defaults.run_schema()


def _read(given: Any, settings: MAIConfig, config: RunnableConfig | None) -> Any:
    if given is None or isinstance(given, Command):  # resumes a checkpointed run
        return given
    # Inside another graph the config, inherited through a context variable, carries that graph's checkpoint namespace.
    nested = bool(ensure_config(config)["configurable"].get("checkpoint_ns"))
    needs_image = load_prompts(settings.prompts).needs_image
    return read_input(given, settings, needs_image=needs_image, nested=nested)
