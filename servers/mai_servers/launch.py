"""Starts the small and the large vLLM server side by side, and stops both without leaving a process behind.

    with serve(load_config("tiny-cpu")) as pair:
        print(pair.small.url, pair.large.url)

`serve` is for programs that need the servers for a while; `run` is `mai-graph serve`: it blocks until Ctrl-C.
"""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from mai_servers.checks import bound_socket, check_all
from mai_servers.command import command, environment, needs_shim
from mai_servers.config import ROLES, PairConfig, Role, ServerConfig, config_names, load_config
from mai_servers.diagnosis import last_lines, likely_cause
from mai_servers.errors import LaunchError
from mai_servers.interrupts import Interrupts
from mai_servers.process import ServerProcess, stop_all
from mai_servers.warmup import warm_up

__all__ = ["LaunchError", "Pair", "PairConfig", "Role", "Server", "config_names", "load_config", "run", "serve"]

_POLL = 0.25
"""Seconds between two looks at a server."""


@dataclass(frozen=True)
class Server:
    """A server that is up and warm.

    Attributes:
        role: Small or large.
        url: Base URL of its OpenAI-compatible API, ending in /v1.
        model: Served model name.
        process: Its processes, and the path of its log.
    """

    role: Role
    url: str
    model: str
    process: ServerProcess

    @property
    def pid(self) -> int:
        """Process id of the API server, which is also the id of its process group."""
        return self.process.pid


@dataclass(frozen=True)
class Pair:
    """The running servers: both, or the one that was asked for."""

    servers: Mapping[Role, Server]

    @property
    def small(self) -> Server:
        """The small model's server; KeyError if it wasn't asked for."""
        return self.servers["small"]

    @property
    def large(self) -> Server:
        """The large model's server; KeyError if it wasn't asked for."""
        return self.servers["large"]

    def check(self) -> None:
        """Check that all still run.

        Raises:
            LaunchError: One died; with its last log lines and the likely cause.
        """
        for role, server in self.servers.items():
            _check_alive(role, server.process)

    def wait(self) -> None:
        """Block until one dies.

        Raises:
            LaunchError: Always; with its last log lines and the likely cause.
            KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP came first.
        """
        while True:
            self.check()
            time.sleep(_POLL)


@contextmanager
def serve(config: PairConfig, only: Role | None = None, *, console: Console | None = None) -> Iterator[Pair]:
    """Start both servers, or one, and stop them when the block ends, however it ends.

    The servers start at the same time and are warm when the block begins. While it runs, SIGTERM and SIGHUP end it like
    Ctrl-C does: by KeyboardInterrupt.

    Args:
        config: The pair, see `load_config`.
        only: Start this one only.
        console: Where progress is shown; by default the standard error stream.

    Raises:
        LaunchError: They can't be started. What was started is stopped, and its log is kept where the error says.
        KeyboardInterrupt: Ctrl-C, SIGTERM or SIGHUP.
    """
    roles: tuple[Role, ...] = (only,) if only else ROLES
    wanted = {role: config.server(role) for role in roles}
    check_all(wanted)
    logs = Path(tempfile.mkdtemp(prefix="mai-servers-"))
    processes: dict[Role, ServerProcess] = {}
    with Interrupts() as interrupts:
        try:
            with interrupts.held():
                addresses = _start(wanted, logs, processes)
            yield _wait_until_ready(wanted, addresses, processes, config.startup_timeout, console)
        finally:
            with interrupts.held():
                stop_all(list(processes.values()))
    shutil.rmtree(logs, ignore_errors=True)


def run(config: PairConfig, only: Role | None = None, *, console: Console | None = None) -> None:
    """Start both servers, or one, print their URLs, and block until Ctrl-C, SIGTERM or SIGHUP.

    Args:
        config: The pair, see `load_config`.
        only: Start this one only.
        console: Where progress and URLs are shown; by default the standard error stream.

    Raises:
        LaunchError: They can't be started, or one died; the other is stopped.
    """
    console = console or Console(stderr=True)
    try:
        with serve(config, only, console=console) as pair:
            for role, server in pair.servers.items():
                console.print(f"{role}: {server.url} (log: {server.process.log})", soft_wrap=True, highlight=False)
            console.print("Ctrl-C stops.")
            pair.wait()
    except KeyboardInterrupt:
        console.print("Stopped.")


def _start(servers: Mapping[Role, ServerConfig], logs: Path, processes: dict[Role, ServerProcess]) -> dict[Role, str]:
    """Start the servers, adding each to `processes` at once, and return the base URL of each."""
    urls: dict[Role, str] = {}
    shim = needs_shim()
    for role, server in servers.items():
        with bound_socket(server.host, server.port) as sock:
            port = sock.getsockname()[1]
        environ = environment(server, os.environ, shim=shim and not server.gpus)
        processes[role] = ServerProcess(command(role, server, port), environ, logs / f"{role}.log")
        # A server that listens on all addresses is reached through this machine's own.
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(server.host, server.host)  # noqa: S104
        urls[role] = f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"
    return urls


def _wait_until_ready(
    servers: Mapping[Role, ServerConfig],
    urls: Mapping[Role, str],
    processes: Mapping[Role, ServerProcess],
    timeout: float,
    console: Console | None,
) -> Pair:
    """Wait until all answer and are warm; raise LaunchError as soon as one can't."""
    deadline = time.monotonic() + timeout
    given_up = threading.Event()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        Progress(*columns, console=console or Console(stderr=True)) as progress,
        ThreadPoolExecutor(len(processes)) as threads,
    ):

        def get_ready(role: Role) -> None:
            name = f"{role} ({servers[role].model})"
            task = progress.add_task(f"{name}: loading", total=1)
            while not _is_healthy(urls[role]):
                _check_alive(role, processes[role])
                if given_up.wait(_POLL):
                    return
                if time.monotonic() > deadline:
                    raise _too_late(role, processes[role], timeout)
            progress.update(task, description=f"{name}: warming up")
            try:
                warm_up(urls[role], role, max(1.0, deadline - time.monotonic()))
            except httpx.TransportError as error:
                if not given_up.is_set():
                    time.sleep(_POLL)
                    _check_alive(role, processes[role])
                    raise _too_late(role, processes[role], timeout) from error
            progress.update(task, description=f"{name}: ready", completed=1)

        futures: list[Future[None]] = [threads.submit(get_ready, role) for role in processes]
        try:
            for done in wait(futures, return_when=FIRST_EXCEPTION).done:
                done.result()
        except BaseException:
            given_up.set()
            # Ends a warm-up request that another server's death or Ctrl-C made pointless.
            for process in processes.values():
                process.terminate()
            raise
    return Pair({role: Server(role, urls[role], role, processes[role]) for role in processes})


def _is_healthy(url: str) -> bool:
    try:
        return httpx.get(f"{url.removesuffix('/v1')}/health", timeout=5, trust_env=False).is_success
    except httpx.TransportError:
        return False


def _check_alive(role: Role, process: ServerProcess) -> None:
    if (exit_code := process.exit_code) is not None:
        log = process.log_text()
        raise LaunchError(
            f"The {role} server died. Likely cause: {likely_cause(log, exit_code)}",
            f"Its whole log: {process.log}",
            last_lines(log),
        )


def _too_late(role: Role, process: ServerProcess, timeout: float) -> LaunchError:
    return LaunchError(
        f"The {role} server was not ready within {timeout:g} s",
        f"Raise startup_timeout in the config if it was still making progress. Its whole log: {process.log}",
        last_lines(process.log_text()),
    )
