"""Measures the miniature pair on held-out scenes through the real graph: `python -m mai_servers.tiny.evaluate`.

Starts both vLLM servers, asks each question through `mai_graph.create_mai`, and makes the calls that a question's route
left out (the small model's reasoning where the short answers agree, the large model's own reasoning) directly, with
the same prompts and limits. Exits with 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from langchain_core.messages import BaseMessage
from rich.console import Console
from rich.progress import track
from rich.table import Table

from mai_graph import ChatVLLM, Endpoint, MAIConfig, create_mai
from mai_graph.compiled import MAIGraph
from mai_graph.config import Settings
from mai_graph.prompts import load_prompts
from mai_graph.question import question_of, read_input
from mai_graph.state import Route, State
from mai_graph.verifier import read_answer
from mai_servers import launch
from mai_servers.tiny.scenes import Example, make_question

ROUTES: tuple[Route, ...] = ("agreement", "reasoned_agreement", "transfer")


class Answers(NamedTuple):
    """Every answer to one question; None where there was none."""

    small_short: str | None
    large_short: str | None
    small_own_reasoning: str | None
    small_reasoned: str | None
    large_after_transfer: str | None
    large_own_reasoning: str | None
    large_reasoned: str | None
    graph: str | None


class Target(NamedTuple):
    """What a share is called, and the lowest and highest value it may have."""

    label: str
    low: float
    high: float


TARGETS: dict[str, Target] = {
    "small_short": Target("small, short", 0.0, 0.70),
    "large_short": Target("large, short", 0.75, 0.92),
    "small_own_reasoning": Target("small, last line of its reasoning", 0.0, 1.0),
    "small_reasoned": Target("small, short after its reasoning (S2)", 0.90, 1.0),
    "large_after_transfer": Target("large, after the small model's reasoning", 0.93, 1.0),
    "large_own_reasoning": Target("large, last line of its own reasoning", 0.93, 1.0),
    "large_reasoned": Target("large, short after its own reasoning", 0.0, 1.0),
    "graph": Target("the graph", 0.0, 1.0),
}
ROUTE_TARGET = Target("route", 0.05, 1.0)
_SHORT_TOKENS, _THINK_TOKENS = 16, 256


class Pair(NamedTuple):
    """The graph, and its two models for the calls it leaves out."""

    graph: MAIGraph
    small: ChatVLLM
    large: ChatVLLM


def connect(small: Endpoint, large: Endpoint) -> Pair:
    """Make the graph and the direct connections."""
    graph = create_mai(small, large, short_max_tokens=_SHORT_TOKENS, think_max_tokens=_THINK_TOKENS)
    models = (
        ChatVLLM(base_url=end.url, model=end.model, api_key="EMPTY", temperature=0, timeout=end.timeout)
        for end in (small, large)
    )
    return Pair(graph, *models)


async def answer(pair: Pair, example: Example) -> tuple[Route, Answers]:
    """Ask one question in every way."""
    asked = {"question": example.question, "images": [example.image()], "options": list(example.options)}
    out = await pair.graph.ainvoke(asked)
    prompts = load_prompts("default")
    state: State = read_input(asked, MAIConfig(), needs_image=True, nested=False)  # type: ignore[assignment]
    question = question_of(state)

    async def ask(model: ChatVLLM, messages: list[BaseMessage], *, reasoning: bool = False) -> str:
        limit = _THINK_TOKENS if reasoning else _SHORT_TOKENS
        return str((await model.ainvoke(messages, max_tokens=limit)).text)

    def read(text: str, *, reasoning: bool = False) -> str | None:
        return read_answer(text, options=list(example.options), reasoning=reasoning)

    small_think = out["reasoning"]["text"] if out["reasoning"] else None
    if small_think is None:
        small_think = await ask(pair.small, prompts.think_messages(question), reasoning=True)
    large_think = await ask(pair.large, prompts.think_messages(question), reasoning=True)
    reasoned, transferred = out["small_reasoned"], out["large_answer"]
    return out["route"], Answers(
        small_short=out["small_short"]["answer"],
        large_short=out["large_short"]["answer"],
        small_own_reasoning=read(small_think, reasoning=True),
        small_reasoned=reasoned["answer"]
        if reasoned
        else read(await ask(pair.small, prompts.answer_messages(question, small_think))),
        large_after_transfer=transferred["answer"]
        if transferred
        else read(await ask(pair.large, prompts.transfer_messages(question, small_think))),
        large_own_reasoning=read(large_think, reasoning=True),
        large_reasoned=read(await ask(pair.large, prompts.answer_messages(question, large_think))),
        graph=out["answer"],
    )


async def answer_all(pair: Pair, examples: Sequence[Example], concurrency: int) -> list[tuple[Route, Answers]]:
    """Ask all questions, so many at a time; results in the order of the examples."""
    slots = asyncio.Semaphore(concurrency)

    async def one(example: Example) -> tuple[Route, Answers]:
        async with slots:
            return await answer(pair, example)

    tasks = [asyncio.create_task(one(example)) for example in examples]
    for task in track(asyncio.as_completed(tasks), "Asking", total=len(tasks), console=Console(stderr=True)):
        await task
    return [task.result() for task in tasks]


def report(examples: Sequence[Example], results: Sequence[tuple[Route, Answers]], console: Console) -> bool:
    """Print accuracies and route shares against their targets; tells whether all are met."""
    n = len(examples)
    table = Table("", "measured", "target", "", title=f"Miniature pair, {n} held-out scenes")
    met = True

    def row(target: Target, share: float) -> None:
        nonlocal met
        inside = target.low <= share <= target.high
        met = met and inside
        bounds = f"{target.low:.0%} to {target.high:.0%}" if target.low or target.high < 1 else ""
        table.add_row(target.label, f"{share:.1%}", bounds, ("ok" if inside else "MISSED") if bounds else "")

    for field, target in TARGETS.items():
        right = sum(_same(getattr(a, field), e.answer) for e, (_, a) in zip(examples, results, strict=True))
        row(target, right / n)
    table.add_section()
    routes = Counter(route for route, _ in results)
    for route in ROUTES:
        row(ROUTE_TARGET._replace(label=f"route {route}"), routes[route] / n)
    console.print(table)
    _report_kinds(examples, results, console)
    if sum(routes[route] for route in ROUTES) != n:
        console.print(f"Routes don't sum to {n}: {dict(routes)}")
        return False
    return met


def _report_kinds(examples: Sequence[Example], results: Sequence[tuple[Route, Answers]], console: Console) -> None:
    fields = ("small_short", "large_short", "small_reasoned", "large_after_transfer", "large_own_reasoning")
    table = Table("kind", "n", *(TARGETS[field].label for field in fields), title="By kind of question")
    for kind in sorted({example.kind for example in examples}):
        rows = [(e, a) for e, (_, a) in zip(examples, results, strict=True) if e.kind == kind]
        shares = [sum(_same(getattr(a, field), e.answer) for e, a in rows) / len(rows) for field in fields]
        table.add_row(kind, str(len(rows)), *(f"{share:.0%}" for share in shares))
    console.print(table)


def _same(given: str | None, true: str) -> bool:
    return given is not None and given.strip().casefold() == true.casefold()


def main() -> None:
    """Evaluate, on servers started here or, with --running, on those that run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--running", action="store_true", help="use the servers of `mai-graph serve`")
    arguments = parser.parse_args()
    examples = [make_question(seed) for seed in range(arguments.scenes)]

    def measure(small: Endpoint, large: Endpoint) -> list[tuple[Route, Answers]]:
        return asyncio.run(answer_all(connect(small, large), examples, arguments.concurrency))

    started = time.monotonic()
    if arguments.running:
        settings = Settings()
        results = measure(settings.small, settings.large)
    else:
        with launch.serve(launch.load_config("tiny-cpu")) as pair:
            ends = [Endpoint(url=end.url, model=end.model) for end in (pair.small, pair.large)]
            results = measure(*ends)
    console = Console()
    met = report(examples, results, console)
    console.print(f"{time.monotonic() - started:.0f} s in all")
    raise SystemExit(0 if met else 1)


if __name__ == "__main__":
    main()
