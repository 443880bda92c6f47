"""One server's processes: started as a group of their own, and stopped without leaving one behind."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil

_GRACE, _CHILDRENS_GRACE = 10.0, 1.0
"""Seconds that a server, and then what it leaves behind, have to end by themselves; vLLM needs two or three."""


class ServerProcess:
    """A server and everything it started: vLLM's engine, its workers, Python's helpers."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        """Start it, with its output going to a file.

        Raises:
            OSError: The program or the file can't be opened.
        """
        self.log = log
        with log.open("wb") as output:
            # In a session of its own, so that Ctrl-C in the terminal reaches the launcher only, which stops in order.
            self._process = subprocess.Popen(  # noqa: S603
                command, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """The process id of the server, which is also the id of its process group."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._process.poll()

    def log_text(self) -> str:
        """Return what it has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def terminate(self) -> None:
        """Ask it to end."""
        self._process.terminate()

    def wait(self, timeout: float) -> None:
        """Wait until the server itself has ended, or for that many seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, timeout))

    def wait_or_kill(self, deadline: float) -> None:
        """Wait until it has ended, then kill whatever is left of its group.

        Args:
            deadline: When to stop waiting, as `time.monotonic` counts.
        """
        self.wait(deadline - time.monotonic())
        # A child may need a moment more than its parent to end by itself; one that a crash orphaned never does.
        _, alive = psutil.wait_procs(self._members(), timeout=_CHILDRENS_GRACE)
        if alive:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)
            psutil.wait_procs(alive, timeout=_GRACE)
        self._process.wait()

    def _members(self) -> list[psutil.Process]:
        """Return the living processes of the group, whoever their parent is by now."""
        members = []
        for process in psutil.process_iter():
            with contextlib.suppress(OSError, psutil.Error):
                if os.getpgid(process.pid) == self.pid and process.status() != psutil.STATUS_ZOMBIE:
                    members.append(process)
        return members


def stop_all(processes: Sequence[ServerProcess]) -> None:
    """Stop several servers at the same time; return when none of their processes is left."""
    for process in processes:
        process.terminate()
    deadline = time.monotonic() + _GRACE
    for process in processes:
        process.wait_or_kill(deadline)
