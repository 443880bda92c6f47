"""What the graph costs: MAI Graph against a hand-written asyncio pipeline that makes the same five calls.

Both send to a local server that answers at once (`zero_latency.py`, a process of its own), with the same client objects
and the same parameters, and take the longest route: two short answers, reasoning, S2, transfer. The two take turns in
one run, so a disturbance of the machine meets both.

    python benchmarks/overhead.py

Exits with 1 when the graph costs more than 15 ms more a question, or 1,000 questions at concurrency 64 take more than
1.5 times as long.
"""

import argparse
import asyncio
import base64
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from mai_graph import ChatVLLM, Endpoint, MAIConfig, create_mai
from mai_graph.agents import make_agent
from mai_graph.images import to_content_block
from mai_graph.prompts import load_prompts
from mai_graph.question import Question
from mai_graph.verifier import read_answer, verify

MOST_MORE_MS = 15.0
MOST_RATIO = 1.5

HERE = Path(__file__).parent
PICTURE = HERE.parent / "examples" / "shapes.png"
QUESTION = "How many red shapes are there?"

Ask = Callable[[], Awaitable[str]]


@contextmanager
def zero_latency_server() -> Iterator[str]:
    """Start `zero_latency.py` on a free port, and stop it at the end.

    Yields:
        Its address.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "zero_latency:app", "--port", str(port), "--log-level", "warning"]
    server = subprocess.Popen([*command, "--no-access-log"], cwd=HERE)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(100):
            try:
                httpx.get(url)
                break
            except httpx.ConnectError:
                if server.poll() is not None:
                    raise
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


def by_hand(small: ChatVLLM, large: ChatVLLM, image: str) -> Ask:
    """The pipeline as one writes it without a framework."""
    prompts, config = load_prompts("default"), MAIConfig()
    short = {"max_tokens": config.short_max_tokens, "temperature": config.temperature, "logprobs": True}
    think = {"max_tokens": config.think_max_tokens, "temperature": config.temperature, "logprobs": False}

    async def ask() -> str:
        question = Question(QUESTION, [to_content_block(image)], [], None)
        messages = prompts.simple_messages(question)
        first, other = await asyncio.gather(small.ainvoke(messages, **short), large.ainvoke(messages, **short))
        answer, decision = read_answer(first.text), read_answer(other.text)
        if verify(answer, decision, metric=None)["agree"]:
            return decision or ""
        reasoning = (await small.ainvoke(prompts.think_messages(question), **think)).text
        second = await small.ainvoke(prompts.answer_messages(question, reasoning), **short)
        if verify(read_answer(second.text), decision, metric=None)["agree"]:
            return decision or ""
        last = await large.ainvoke(prompts.transfer_messages(question, reasoning), **short)
        return read_answer(last.text) or ""

    return ask


def by_graph(small: Endpoint, large: Endpoint, image: str) -> Ask:
    """The same question through MAI Graph."""
    graph = create_mai(small, large)

    async def ask() -> str:
        result = await graph.ainvoke({"question": QUESTION, "images": [image]})
        assert result["route"] == "transfer", result
        return str(result["answer"])

    return ask


async def one_after_the_other(arms: dict[str, Ask], questions: int) -> dict[str, float]:
    """Median milliseconds a question; the arms take turns question by question."""
    taken: dict[str, list[float]] = {name: [] for name in arms}
    for _ in range(questions):
        for name, ask in arms.items():
            start = time.perf_counter()
            await ask()
            taken[name].append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(times) for name, times in taken.items()}


async def at_once(arms: dict[str, Ask], questions: int, concurrency: int, rounds: int) -> dict[str, float]:
    """Seconds for all questions; the arms take turns round by round."""
    taken = dict.fromkeys(arms, 0.0)
    for _ in range(rounds):
        for name, ask in arms.items():
            waiting = iter(range(questions // rounds))

            async def worker(ask: Ask = ask, waiting: Iterator[int] = waiting) -> None:
                for _ in waiting:
                    await ask()

            start = time.perf_counter()
            await asyncio.gather(*(worker() for _ in range(concurrency)))
            taken[name] += time.perf_counter() - start
    return taken


async def measure(url: str, options: argparse.Namespace) -> bool:
    """Measure, print the table, and tell whether both targets are met."""
    image = "data:image/png;base64," + base64.b64encode(PICTURE.read_bytes()).decode()
    small, large = (Endpoint(url=f"{url}/{name}/v1", model=name) for name in ("small", "large"))
    models = [make_agent(end.model, end).model for end in (small, large)]
    assert all(isinstance(model, ChatVLLM) for model in models)
    arms = {"by hand": by_hand(*models, image), "MAI Graph": by_graph(small, large, image)}  # type: ignore[arg-type]
    await one_after_the_other(arms, 20)  # warm up

    alone = await one_after_the_other(arms, options.sequential)
    loaded = await at_once(arms, options.questions, options.concurrency, rounds=4)
    more = alone["MAI Graph"] - alone["by hand"]
    ratio = loaded["MAI Graph"] / loaded["by hand"]

    table = Table("", *arms, "graph against hand", "target", title="What the graph costs (five calls a question)")
    table.add_row(
        f"one after the other, median of {options.sequential}",
        *(f"{ms:.1f} ms" for ms in alone.values()),
        f"{more:+.1f} ms",
        f"at most +{MOST_MORE_MS:.0f} ms",
    )
    table.add_row(
        f"{options.questions} questions, {options.concurrency} at a time",
        *(f"{seconds:.2f} s" for seconds in loaded.values()),
        f"x {ratio:.2f}",
        f"at most x {MOST_RATIO}",
    )
    Console().print(table)
    return more <= MOST_MORE_MS and ratio <= MOST_RATIO


def main() -> int:
    """Run the benchmark as a command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequential", type=int, default=300, help="questions asked one after the other, by each")
    parser.add_argument("--questions", type=int, default=1000, help="questions asked at once, by each")
    parser.add_argument("--concurrency", type=int, default=64, help="of these, at a time")
    with zero_latency_server() as url:
        met = asyncio.run(measure(url, parser.parse_args()))
    if not met:
        sys.stderr.write("A target is missed.\n")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
