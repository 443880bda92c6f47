"""Ctrl-C, SIGTERM and a closed terminal, made to come one at a time and never in the middle of starting or stopping."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Turns those signals into KeyboardInterrupt while it is entered, except within `held`.

    A signal that was ignored stays so, as `nohup` wants it. Outside the main thread it does nothing: Python delivers
    signals to that one only.
    """

    def __init__(self) -> None:
        self._pending = False
        self._holders = 0
        self._previous: dict[signal.Signals, object] = {}

    def __enter__(self) -> "Interrupts":
        if threading.current_thread() is threading.main_thread():
            heeded = [number for number in _SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
            self._previous = {number: signal.signal(number, self._receive) for number in heeded}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep a signal back until the end of the block."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
        if self._pending and not self._holders:
            self._pending = False
            raise KeyboardInterrupt

    def _receive(self, number: int, frame: FrameType | None) -> None:
        if self._holders:
            self._pending = True
        else:
            raise KeyboardInterrupt
