"""How a run looks in a terminal: its outcome in one line, and a table of its model calls."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from mai_graph.latency import latency
from mai_graph.state import Output, Step


def outcome_line(output: Output) -> Text:
    """Return how the answer came about: route, confidence, verifier metric, time."""
    parts = [f"route {output['route']}"]
    if output["confidence"] is not None:
        parts.append(f"confidence {output['confidence']:.2f}")
    if verdict := output["verdict"]:
        parts.append(f"metric {verdict['metric']}" + (" (guessed)" if verdict["guessed"] else ""))
    parts.append(f"{latency(output['steps']).critical_path * 1000:.0f} ms")
    return Text(", ".join(parts), style="dim")


def steps_table(steps: Sequence[Step]) -> Table:
    """Return a table with one row for each model call, in order of their starts, and their totals."""
    table = Table("step", "model", title="Model calls")
    for name in ("prompt", "cached", "completion", "start ms", "duration ms"):
        table.add_column(name, justify="right")
    table.add_column("finish")
    table.add_column("retries", justify="right")
    table.add_column("error", overflow="fold")
    ordered = sorted(steps, key=lambda step: step["start"])
    for step in ordered:
        counts = step["prompt_tokens"], step["cached_tokens"], step["completion_tokens"]
        table.add_row(
            step["node"],
            Text(step["model"]),  # not a str, in which square brackets would be markup
            *("" if count is None else str(count) for count in counts),
            f"{(step['start'] - ordered[0]['start']) * 1000:.0f}",
            f"{step['duration'] * 1000:.0f}",
            step["finish_reason"] or "",
            str(step["retries"]),
            Text(step["error"] or "", style="red"),
        )
    times = latency(steps)
    table.add_section()
    for label, seconds in (("critical path", times.critical_path), ("sum", times.total)):
        table.add_row(label, *[""] * 5, f"{seconds * 1000:.0f}")
    return table
