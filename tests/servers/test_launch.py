"""Starting, watching and stopping servers: with a stand-in for vLLM, so that each way to fail takes a second."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from rich.console import Console

from mai_servers import checks, launch, process
from mai_servers.config import PairConfig, Role, ServerConfig
from mai_servers.errors import LaunchError

FAKE = Path(__file__).parent / "fake_vllm.py"


def fake_command(role: Role, server: ServerConfig, port: int) -> list[str]:
    return [sys.executable, str(FAKE), "--port", str(port)]


def pair_of(small: str = "ready", large: str = "ready", **fields: Any) -> PairConfig:
    """A pair on free ports whose servers behave as told."""
    servers = {
        role: {"model": f"Org/{role}", "port": 0, "memory_gib": 0.1, "env": {"FAKE": mode}}
        for role, mode in (("small", small), ("large", large))
    }
    return PairConfig.model_validate({"description": "Stand-ins.", "startup_timeout": 60} | servers | fields)


@pytest.fixture(autouse=True)
def stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Start the stand-in for vLLM, and keep the logs of dead ones in the test's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(launch, "command", fake_command)
    monkeypatch.setattr(checks, "find_spec", lambda name: name)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No test leaves a process behind, whatever happened to its servers."""
    yield
    assert living() == []


def living() -> list[str]:
    """Command lines of all stand-ins and their children that live."""
    lines = (line for line in process_lines() if str(FAKE) in line or "engine up" in line)
    return [line for line in lines if "pytest" not in line]


def process_lines() -> Iterator[str]:
    for one in psutil.process_iter():
        try:
            if one.status() != psutil.STATUS_ZOMBIE:
                yield " ".join(one.cmdline())
        except psutil.Error:
            continue


def quiet() -> Console:
    return Console(file=StringIO(), width=200)


def text_of(console: Console) -> str:
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def log_of(error: LaunchError) -> Path:
    return Path(error.remedy.rsplit(": ", 1)[1])


def test_both_servers_are_warm_when_the_block_begins() -> None:
    with launch.serve(pair_of(), console=quiet()) as pair:
        assert len(living()) == 4
        for server in (pair.small, pair.large):
            assert httpx.get(server.url.removesuffix("/v1") + "/health").is_success
            # A short question and one as long as a reasoning, both with a picture and log probabilities.
            asked = [line for line in server.process.log_text().splitlines() if line.startswith("asked")]
            assert asked == [f"asked {server.model} 8 True", f"asked {server.model} 128 True"]
        pair.check()
        log = pair.small.process.log
    assert not log.exists()


@pytest.mark.parametrize("role", ["small", "large"])
def test_one_server_can_be_started_alone(role: Role) -> None:
    with launch.serve(pair_of(), role, console=quiet()) as pair:
        assert [server.role for server in pair.servers.values()] == [role]
        assert len(living()) == 2


def test_a_server_that_wants_a_key_is_asked_with_it() -> None:
    pair = pair_of()
    env = {"VLLM_API_KEY": "secret"}
    pair = pair.model_copy(update={"small": pair.small.model_copy(update={"env": env})})
    with launch.serve(pair, "small", console=quiet()) as running:
        assert "asked small 128 True" in running.small.process.log_text()


def test_an_error_in_the_block_stops_both() -> None:
    with pytest.raises(ZeroDivisionError), launch.serve(pair_of(), console=quiet()):
        _ = 1 / 0
    assert living() == []


@pytest.mark.parametrize(
    ("pair", "said"),
    [
        (pair_of(large="dies"), "The large server died. Likely cause: ValueError: No common block size for 16"),
        (pair_of(small="dies_asked"), "The small server died. Likely cause: RuntimeError: the engine fell over"),
        (
            pair_of(small="refuses"),
            "small is up but refuses a question with a picture and log probabilities (HTTP 400)",
        ),
    ],
)
def test_a_server_that_does_not_come_up_stops_the_other(pair: PairConfig, said: str) -> None:
    with pytest.raises(LaunchError) as error, launch.serve(pair, console=quiet()):
        pytest.fail("the block began")
    assert error.value.problem.startswith(said)
    assert living() == []


def test_a_server_that_never_answers_ends_the_start() -> None:
    pair = pair_of(small="hangs", startup_timeout=1)
    with pytest.raises(LaunchError, match="The small server was not ready within 1 s"), launch.serve(pair, "small"):
        pytest.fail("the block began")
    assert living() == []


def test_a_dead_servers_last_lines_are_shown_and_its_log_is_kept() -> None:
    with pytest.raises(LaunchError) as error, launch.serve(pair_of(small="dies"), console=quiet()):
        pytest.fail("the block began")
    assert "No common block size" in error.value.log
    assert "No common block size" in str(error.value)
    assert "No common block size" in log_of(error.value).read_text()


def test_a_server_that_dies_later_ends_the_wait() -> None:
    with launch.serve(pair_of(), console=quiet()) as pair:
        os.kill(pair.large.pid, signal.SIGKILL)
        with pytest.raises(LaunchError) as error:
            pair.wait()
        with pytest.raises(LaunchError):
            pair.check()
    assert error.value.problem.startswith("The large server died. Likely cause: it was killed from outside")


def test_a_server_that_ignores_being_asked_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_GRACE", 0.5)
    with launch.serve(pair_of(small="stubborn"), console=quiet()):
        pass
    assert living() == []


def test_nothing_starts_when_a_check_fails() -> None:
    with launch.serve(pair_of(), "small", console=quiet()) as pair:
        port = httpx.URL(pair.small.url).port
        taken = pair_of(small="ready").model_copy(update={"small": pair_of().small.model_copy(update={"port": port})})
        with pytest.raises(LaunchError, match=f"small.port: {port} on 127.0.0.1 is in use"), launch.serve(taken):
            pytest.fail("the block began")
        assert len(living()) == 2


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
def test_the_url_is_one_that_can_be_opened_from_here(host: str) -> None:
    pair = pair_of()
    pair = pair.model_copy(update={"small": pair.small.model_copy(update={"host": host})})
    with launch.serve(pair, "small", console=quiet()) as running:
        assert running.small.url.startswith("http://127.0.0.1:")


def test_run_prints_the_urls_and_raises_when_a_server_dies() -> None:
    console = quiet()

    class Dying(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            console.print(*objects, **options)
            if "Ctrl-C stops" in text_of(console):
                victim = next(one for one in psutil.Process().children() if str(FAKE) in " ".join(one.cmdline()))
                victim.kill()

    with pytest.raises(LaunchError, match="server died"):
        launch.run(pair_of(), console=Dying(file=StringIO()))
    assert "small: http://127.0.0.1:" in text_of(console)
    assert "large: http://127.0.0.1:" in text_of(console)


PROGRAM = """
import signal, sys
from rich.console import Console
from mai_servers import checks, launch, process
from tests.servers.test_launch import fake_command, pair_of
signal.signal(signal.SIGINT, signal.default_int_handler)
launch.command, checks.find_spec, process._GRACE = fake_command, lambda name: name, 2
launch.run(pair_of(*sys.argv[1:]), console=Console(file=sys.stdout, width=200))
"""


def program(*modes: str) -> "subprocess.Popen[str]":
    """`launch.run` in a process of its own, as `mai-graph serve` is."""
    return subprocess.Popen([sys.executable, "-u", "-c", PROGRAM, *modes], stdout=subprocess.PIPE, text=True)


def wait_for(text: str, running: "subprocess.Popen[str]") -> None:
    assert running.stdout is not None
    for line in running.stdout:
        if text in line:
            return
    pytest.fail(f"it never said {text!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_both_servers_in_order(number: signal.Signals) -> None:
    with program() as running:
        wait_for("Ctrl-C stops", running)
        running.send_signal(number)
        wait_for("Stopped.", running)
    assert running.returncode == 0
    assert living() == []


def test_a_signal_while_the_servers_load_stops_them_too() -> None:
    with program("hangs", "hangs") as running:
        while len(living()) < 4:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        wait_for("Stopped.", running)
    assert running.returncode == 0


def test_a_second_ctrl_c_does_not_cut_the_stopping_short() -> None:
    with program("stubborn", "stubborn") as running:
        wait_for("Ctrl-C stops", running)
        for _ in range(5):
            running.send_signal(signal.SIGINT)
            time.sleep(0.2)
        wait_for("Stopped.", running)
    assert running.returncode == 0
    assert living() == []


def test_signals_are_handed_back_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with launch.serve(pair_of(), "small", console=quiet()):
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_servers_can_be_started_from_a_thread() -> None:
    from concurrent.futures import ThreadPoolExecutor

    def use() -> Mapping[Role, launch.Server]:
        with launch.serve(pair_of(), "small", console=quiet()) as pair:
            return pair.servers

    with ThreadPoolExecutor(1) as threads:
        assert list(threads.submit(use).result()) == ["small"]
