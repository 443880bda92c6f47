"""Nodes and decisions of the graph as Runnables that run where they are called, as lean as LangChain allows.

LangGraph puts a plain function on a thread of its own in every asynchronous run, and LangChain's ``RunnableLambda``
inspects signatures and opens a second trace around each call. A verifier or a decision takes microseconds, less than
either of these; what the graph costs as a whole is measured by ``benchmarks/overhead.py``.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from langchain_core.runnables import Runnable, RunnableConfig

from mai_graph.state import State

T = TypeVar("T")


class Node(Runnable[State, T], Generic[T]):
    """A function of the state, in a synchronous and an asynchronous form."""

    def __init__(self, name: str, invoke: Callable[[State], T], ainvoke: Callable[[State], Awaitable[T]]) -> None:
        self.name = name
        self._invoke, self._ainvoke = invoke, ainvoke

    def invoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> T:
        """Run the synchronous form."""
        return self._invoke(input)

    async def ainvoke(self, input: State, config: RunnableConfig | None = None, **kwargs: Any) -> T:
        """Run the asynchronous form."""
        return await self._ainvoke(input)


def inline(function: Callable[[State], T]) -> Node[T]:
    """A node or decision that is quick and does no I/O, so that an event loop may run it as it is."""

    async def ainvoke(state: State) -> T:
        return function(state)

    return Node(function.__name__, function, ainvoke)
