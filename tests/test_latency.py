"""Critical path and sum of a question's calls."""

import pytest

from mai_graph.latency import latency
from mai_graph.state import Step


def step(start: float, duration: float) -> Step:
    return Step(
        question_id="q",
        node="n",
        model="m",
        start=start,
        duration=duration,
        prompt_tokens=None,
        cached_tokens=None,
        completion_tokens=None,
        finish_reason=None,
        retries=0,
        error=None,
    )


@pytest.mark.parametrize(
    ("calls", "critical_path", "total"),
    [
        pytest.param([], 0, 0, id="no call"),
        pytest.param([(5, 2)], 2, 2, id="one call"),
        pytest.param([(0, 1), (0, 3)], 3, 4, id="two at once: the longer one"),
        pytest.param([(0, 3), (0, 1)], 3, 4, id="the order of the records is no matter"),
        pytest.param([(2, 2), (0, 2)], 4, 4, id="one after the other, recorded backwards"),
        pytest.param([(0, 2), (1, 2)], 3, 4, id="overlapping in part"),
        pytest.param([(0, 9), (1, 2), (4, 2)], 9, 13, id="two within a long one"),
        pytest.param([(0, 1), (0, 2), (2.5, 4), (7, 1)], 7, 8, id="the gaps between calls don't count"),
        pytest.param([(0, 2), (1, 0)], 2, 2, id="a call that took no time"),
    ],
)
def test_overlapping_calls_count_once_in_the_critical_path_and_each_in_the_sum(
    calls: list[tuple[float, float]], critical_path: float, total: float
) -> None:
    assert latency(step(*call) for call in calls) == (pytest.approx(critical_path), pytest.approx(total))
