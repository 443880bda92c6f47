"""Latency accounting of one question: what its user waits for, and what the hardware pays."""

from collections.abc import Iterable
from typing import NamedTuple

from mai_graph.state import Step


class Latency(NamedTuple):
    """Both sums over a question's model calls, in seconds; what the graph does between two calls is in neither."""

    critical_path: float
    """Time during which at least one call was under way: calls that overlap count once."""
    total: float
    """Durations of all calls: calls that overlap count each."""


def latency(steps: Iterable[Step]) -> Latency:
    """Sum up the calls of one question.

    In this graph every call waits for all those before it or overlaps them, so the time covered by calls is the
    longest chain of calls. A step is timed from the start of its last try: the wait before a retry is not in it.
    """
    critical_path, total, covered_until = 0.0, 0.0, float("-inf")
    for step in sorted(steps, key=lambda step: step["start"]):
        end = step["start"] + step["duration"]
        critical_path += max(0.0, end - max(step["start"], covered_until))
        total += step["duration"]
        covered_until = max(covered_until, end)
    return Latency(critical_path, total)
