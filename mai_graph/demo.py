"""``mai-graph demo``: drawn scenes, real servers, and what the graph saves over the large model's own reasoning.

The questions are `mai_servers.tiny.scenes`' held-out ones, seeds 0, 1, 2, ...: nothing is picked but what is shown of
them. Each is asked twice, one after the other and alone: through the graph, then to the large model under the prompt
that makes it reason. The graph goes first, so the pictures that the prefix cache keeps help the other side.
"""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any, NamedTuple, get_args

from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from mai_graph.agents import Agent, make_agent
from mai_graph.compiled import MAIGraph
from mai_graph.config import Endpoint, MAIConfig
from mai_graph.graph import create_mai
from mai_graph.images import load_image, to_content_block
from mai_graph.latency import latency
from mai_graph.prompts import load_prompts
from mai_graph.question import Question
from mai_graph.state import Input, Output, Route
from mai_graph.verifier import read_answer, verify
from mai_servers.tiny.scenes import Example, make_question

ROUTES: tuple[Route, ...] = ("agreement", "reasoned_agreement", "transfer")
"""The routes of a run in which nothing fails."""

SHOWN = 12
"""Questions in the table."""

# Both sides reason under the same limit, well above what the miniature models need: a model that runs on and on must
# not make the other side look good.
_CONFIG = MAIConfig(think_max_tokens=256)
_WARM_UP_SEED = 10**9


class Asked(NamedTuple):
    """One question, answered by the graph and by the large model's own reasoning."""

    example: Example
    picture: Path
    output: Output
    elapsed: float
    """Seconds the graph took, its own work included."""
    own_answer: str | None
    """What the large model's own reasoning ends with."""
    own_elapsed: float
    """Seconds that call took."""

    @property
    def is_right(self) -> bool:
        """Whether the graph's answer is the true one."""
        return _is_right(self.output["answer"], self.example)


def run(small: Endpoint, large: Endpoint, questions: int, folder: Path, console: Console) -> bool:
    """Ask, and show the questions, the routes and the times.

    Args:
        small: Where the miniature small model is.
        large: Where the miniature large model is.
        questions: How many held-out questions to ask.
        folder: Where the pictures go; made if it isn't there.
        console: Where the tables go.

    Returns:
        Whether each of the three routes was taken.
    """
    folder.mkdir(parents=True, exist_ok=True)
    asked = asyncio.run(_ask_all(small, large, questions, folder))
    console.print(_questions_table(choose(asked, SHOWN), len(asked)))
    console.print(_routes_table(asked))
    console.print(_times_table(asked))
    first = asked[0]
    console.print("Ask one yourself while `mai-graph serve` runs:", highlight=False)
    console.print(Text(f'  mai-graph ask {first.picture} "{first.example.question}" --trace'), soft_wrap=True)
    missing = [route for route in ROUTES if all(one.output["route"] != route for one in asked)]
    if missing:
        console.print(Text(f"Not taken in {len(asked)} questions: {', '.join(missing)}.", "bold red"))
    return not missing


def choose(asked: Sequence[Asked], count: int) -> list[Asked]:
    """Pick questions that show every route: in turn the next of each route, in the order they were asked."""
    by_route = [[one for one in asked if one.output["route"] == route] for route in get_args(Route)]
    longest = max(map(len, by_route), default=0)
    in_turn = [of_route[place] for place in range(longest) for of_route in by_route if place < len(of_route)]
    chosen = in_turn[:count]
    return [one for one in asked if one in chosen]


async def _ask_all(small: Endpoint, large: Endpoint, questions: int, folder: Path) -> list[Asked]:
    graph = create_mai(small, large, **_CONFIG.model_dump(exclude_unset=True))
    agents = [make_agent("small", small), make_agent("large", large)]
    await _warm_up(graph, agents)
    seeds = track(range(questions), f"Asking {questions} questions", console=Console(stderr=True), transient=True)
    return [await _ask(graph, agents[1], make_question(seed), folder / f"scene-{seed:02}.png") for seed in seeds]


async def _warm_up(graph: MAIGraph, agents: Sequence[Agent]) -> None:
    example = make_question(_WARM_UP_SEED)
    picture = load_image(example.image()).data_url
    await graph.ainvoke(_input(example, picture))
    for agent in agents:
        await _reason(agent, example, picture)


async def _ask(graph: MAIGraph, large: Agent, example: Example, picture: Path) -> Asked:
    example.image().save(picture)
    start = time.perf_counter()
    output: Any = await graph.ainvoke(_input(example, str(picture)))
    elapsed = time.perf_counter() - start
    own_answer, own_elapsed = await _reason(large, example, str(picture))
    return Asked(example, picture, output, elapsed, own_answer, own_elapsed)


def _input(example: Example, picture: str) -> Input:
    return {"question": example.question, "images": [picture], "options": list(example.options)}


async def _reason(agent: Agent, example: Example, picture: str) -> tuple[str | None, float]:
    """What an agent's own reasoning about a question ends with, and how many seconds its call took."""
    image = to_content_block(load_image(picture).data_url)
    question = Question(example.question, [image], list(example.options), None)
    messages = load_prompts(_CONFIG.prompts).think_messages(question)
    start = time.perf_counter()
    message = await agent.model.ainvoke(messages, max_tokens=_CONFIG.think_max_tokens, temperature=_CONFIG.temperature)
    elapsed = time.perf_counter() - start
    return read_answer(str(message.text), options=question.options, reasoning=True), elapsed


def _questions_table(shown: Sequence[Asked], of: int) -> Table:
    table = Table(title=f"{len(shown)} of {of} held-out questions, chosen so that every route is shown")
    for name in ("picture", "question", "small", "large", "answer", "", "route"):
        table.add_column(name, overflow="fold")
    for name in ("tokens in", "out", "ms"):
        table.add_column(name, justify="right")
    for one in shown:
        output, steps = one.output, one.output["steps"]
        letters = zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", one.example.options, strict=False)
        options = "".join(f" {letter}. {text}" for letter, text in letters)
        right = Text("✓", "green") if one.is_right else Text(f"✗ ({one.example.answer})", "red")
        table.add_row(
            Text(str(one.picture)),
            Text(one.example.question + options),
            Text(output["small_short"]["answer"] or "none"),
            Text(output["large_short"]["answer"] or "none"),
            Text(output["answer"]),
            right,
            output["route"],
            str(sum(step["prompt_tokens"] or 0 for step in steps)),
            str(sum(step["completion_tokens"] or 0 for step in steps)),
            f"{latency(steps).critical_path * 1000:.0f}",
        )
    return table


def _routes_table(asked: Sequence[Asked]) -> Table:
    table = Table("route", "questions", "share", "right", "mean ms", title=f"All {len(asked)} questions, by route")
    for route in get_args(Route):
        taken = [one for one in asked if one.output["route"] == route]
        if taken or route in ROUTES:
            share = len(taken) / len(asked)
            table.add_row(route, str(len(taken)), f"{share:.0%}", *_right_and_time(taken))
    return table


def _right_and_time(taken: Sequence[Asked]) -> tuple[str, str]:
    if not taken:
        return "", ""
    return f"{mean(one.is_right for one in taken):.0%}", f"{mean(map(_critical_path, taken)) * 1000:.0f}"


def _times_table(asked: Sequence[Asked]) -> Table:
    ours, own = mean(map(_critical_path, asked)), mean(one.own_elapsed for one in asked)
    overhead = mean(one.elapsed - _critical_path(one) for one in asked)
    table = Table(
        *("", "right", "mean ms a question"),
        title=f"MAI against the large model's own reasoning, {len(asked)} questions, one at a time",
        caption="The models are miniatures made for this demo: this shows how the method works, and says nothing about "
        "the accuracy or the speed-up of real models.",
    )
    own_right = mean(_is_right(one.own_answer, one.example) for one in asked)
    table.add_row(
        "MAI (critical path of its calls)", f"{mean(one.is_right for one in asked):.0%}", f"{ours * 1000:.0f}"
    )
    table.add_row("the large model's own reasoning", f"{own_right:.0%}", f"{own * 1000:.0f}")
    table.add_section()
    table.add_row("speed-up", "", f"{own / ours:.2f} ×")
    table.add_row("the graph itself: reading the picture, routing", "", f"{overhead * 1000:.0f}")
    return table


def _critical_path(one: Asked) -> float:
    return latency(one.output["steps"]).critical_path


def _is_right(answer: str | None, example: Example) -> bool:
    return verify(answer, example.answer, metric=None, options=example.options)["agree"]
