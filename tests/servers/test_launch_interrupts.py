"""Signals while servers start and stop."""

import signal
from collections.abc import Iterator

import pytest

from mai_servers.interrupts import Interrupts


@pytest.fixture(params=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def number(request: pytest.FixtureRequest) -> Iterator[signal.Signals]:
    """A signal that this process heeds, as one started from a terminal does."""
    before = signal.signal(request.param, signal.SIG_DFL)
    yield request.param
    signal.signal(request.param, before)


def test_a_signal_interrupts(number: signal.Signals) -> None:
    with Interrupts(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_held_signal_comes_once_and_only_after_the_outermost_block(number: signal.Signals) -> None:
    done = []

    def start_and_stop(interrupts: Interrupts) -> None:
        with interrupts.held():
            with interrupts.held():
                signal.raise_signal(number)
                signal.raise_signal(number)
                done.append("inner")
            done.append("outer")
        done.append("after")

    with Interrupts() as interrupts:
        with pytest.raises(KeyboardInterrupt):
            start_and_stop(interrupts)
        with interrupts.held():
            done.append("later")
    assert done == ["inner", "outer", "later"]


def test_an_ignored_signal_stays_ignored_as_nohup_wants_it(number: signal.Signals) -> None:
    signal.signal(number, signal.SIG_IGN)
    with Interrupts():
        signal.raise_signal(number)


def test_the_earlier_handlers_come_back(number: signal.Signals) -> None:
    with Interrupts():
        assert signal.getsignal(number) != signal.SIG_DFL
    assert signal.getsignal(number) == signal.SIG_DFL
