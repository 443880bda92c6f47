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
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from mai_servers.checks import bound_socket, check_all
from mai_servers.command import api_key, command, environment, needs_shim
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
        for server in self.servers.values():
            _check_alive(server)

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
    log_is_wanted = False
    with Interrupts() as interrupts:
        servers: dict[Role, Server] = {}
        try:
            with interrupts.held():
                _start(wanted, logs, servers)
            pair = Pair(servers)
            _wait_until_ready(pair, config, interrupts, console or Console(stderr=True))
            yield pair
        except LaunchError:
            log_is_wanted = True
            raise
        finally:
            with interrupts.held():
                stop_all([server.process for server in servers.values()])
                if not log_is_wanted:
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


def _start(wanted: Mapping[Role, ServerConfig], logs: Path, servers: dict[Role, Server]) -> None:
    """Start the servers, adding each to `servers` at once, so that it is stopped whatever happens to the next."""
    shim = needs_shim()
    # All are held until all are found, so that two that may be any aren't the same.
    with ExitStack() as stack:
        sockets = {role: stack.enter_context(bound_socket(one.host, one.port)) for role, one in wanted.items()}
        ports = {role: sock.getsockname()[1] for role, sock in sockets.items()}
    for role, server in wanted.items():
        variables = environment(server, os.environ, shim=shim and not server.gpus)
        process = ServerProcess(command(role, server, ports[role]), variables, logs / f"{role}.log")
        servers[role] = Server(role, _url(server.host, ports[role]), role, process)


def _wait_until_ready(pair: Pair, config: PairConfig, interrupts: Interrupts, console: Console) -> None:
    """Wait until all answer and are warm; raise LaunchError as soon as one can't, with all stopped."""
    deadline = time.monotonic() + config.startup_timeout
    given_up = threading.Event()
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with (
        Progress(*columns, console=console, refresh_per_second=4) as progress,
        ThreadPoolExecutor(len(pair.servers)) as threads,
    ):

        def get_ready(server: Server) -> None:
            name = f"{server.role} ({config.server(server.role).model})"
            task = progress.add_task(f"{name}: loading", total=1)
            # One client for all looks: making one takes longer than asking.
            with httpx.Client(timeout=5, trust_env=False) as client:
                while not _is_healthy(client, server.url):
                    _check_alive(server)
                    if time.monotonic() > deadline:
                        raise _too_late(server, config.startup_timeout)
                    if given_up.wait(_POLL):
                        return
            progress.update(task, description=f"{name}: warming up")
            try:
                key = api_key(config.server(server.role), os.environ)
                warm_up(server.url, server.model, key, max(1.0, deadline - time.monotonic()))
            except httpx.TransportError as error:
                server.process.wait(_POLL * 20)  # it may be dying
                _check_alive(server)
                raise _too_late(server, config.startup_timeout) from error
            progress.update(task, description=f"{name}: ready", completed=1)

        futures = [threads.submit(get_ready, server) for server in pair.servers.values()]
        try:
            for done in wait(futures, return_when=FIRST_EXCEPTION).done:
                done.result()
        except BaseException:
            # The other threads may be in the middle of a request, which ends with its server.
            with interrupts.held():
                given_up.set()
                stop_all([server.process for server in pair.servers.values()])
            raise


def _url(host: str, port: int) -> str:
    """Return the base URL of a server's API; one that listens on all addresses is reached at this machine's own."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
    return f"http://[{host}]:{port}/v1" if ":" in host else f"http://{host}:{port}/v1"


def _is_healthy(client: httpx.Client, url: str) -> bool:
    try:
        return client.get(f"{url.removesuffix('/v1')}/health").is_success
    except httpx.TransportError:
        return False


def _check_alive(server: Server) -> None:
    if (exit_code := server.process.exit_code) is not None:
        log = server.process.log_text()
        raise LaunchError(
            f"The {server.role} server died. Likely cause: {likely_cause(log, exit_code)}",
            f"Its whole log: {server.process.log}",
            last_lines(log),
        )


def _too_late(server: Server, timeout: float) -> LaunchError:
    return LaunchError(
        f"The {server.role} server was not ready within {timeout:g} s",
        f"Raise startup_timeout in the config if it was still making progress. Its whole log: {server.process.log}",
        last_lines(server.process.log_text()),
    )
