"""What is known to be wrong before a server is started."""

import json
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mai_servers import checks
from mai_servers.config import ServerConfig
from mai_servers.errors import LaunchError


def server(**fields: Any) -> ServerConfig:
    return ServerConfig.model_validate({"model": "Org/Small", "port": 0, "memory_gib": 3} | fields)


def test_a_missing_vllm_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    with pytest.raises(LaunchError) as error:
        checks.check_vllm()
    assert "pip install 'mai-servers[cpu]'" in error.value.remedy


CONFIG = json.dumps({"architectures": ["Qwen3VLForConditionalGeneration"]})


@pytest.mark.parametrize(
    ("files", "said"),
    [
        (None, "does not exist"),
        ({}, "has no config.json"),
        ({"config.json": "{", "a.safetensors": "w"}, "names no model architecture"),
        ({"config.json": "[]", "a.safetensors": "w"}, "names no model architecture"),
        ({"config.json": "{}", "a.safetensors": "w"}, "names no model architecture"),
        ({"config.json": CONFIG}, "has no weights"),
        ({"config.json": CONFIG, "a.safetensors": ""}, "a.safetensors is empty"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(tmp_path: Path, files: dict[str, str] | None, said: str) -> None:
    folder = tmp_path / "model"
    if files is not None:
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content)
    with pytest.raises(LaunchError) as error:
        checks.check_model("large", server(model=str(folder)))
    assert error.value.problem.startswith(f"large.model: {folder}")
    assert said in error.value.problem


def test_a_file_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_text("weights")
    with pytest.raises(LaunchError, match="is a file"):
        checks.check_model("small", server(model=str(tmp_path / "model.safetensors")))


@pytest.mark.parametrize("model", ["mai_servers:tiny/small", "mai_servers:tiny/large", "Org/OnTheHub"])
def test_a_real_model_passes(model: str) -> None:
    checks.check_model("small", server(model=model))


def test_a_port_in_use_names_it_and_who_has_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(LaunchError) as error:
            checks.check_port("small", server(port=port))
    assert error.value.problem.startswith(f"small.port: {port} on 127.0.0.1 is in use")
    checks.check_port("small", server(port=port))


def test_another_machines_address_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"small\.host: can't listen on 192\.0\.2\.1 port 0"):
        checks.check_port("small", server(host="192.0.2.1"))


def test_memory_is_counted_for_all_servers_on_the_cpu_together() -> None:
    both = {
        "small": server(),
        "large": server(memory_gib=4),
    }
    checks.check_memory({**both}, 7)
    with pytest.raises(LaunchError) as error:
        checks.check_memory({**both}, 6.5)
    assert error.value.problem == (
        "7 GiB of the machine's memory needed (small.memory_gib 3 + large.memory_gib 4), 6.5 GiB free"
    )


def test_a_server_on_a_gpu_needs_nothing_of_the_machines_memory() -> None:
    checks.check_memory({"small": server(gpus=[0])}, 0.1)


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the driver answers for each GPU."""
    free: dict[str, str] = {}
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(checks.shutil, "which", lambda name: f"/usr/bin/{name}")

    def driver(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        name = command[1].removeprefix("--id=")
        answer = free.get(name, "No devices were found")
        return subprocess.CompletedProcess(command, 0, stdout=f"{answer}\n", stderr="")

    monkeypatch.setattr(checks.subprocess, "run", driver)
    return free


def test_servers_that_share_a_gpu_need_its_memory_together(gpus: dict[str, str]) -> None:
    gpus["0"] = "6144"
    both = {"small": server(gpus=[0]), "large": server(gpus=[0])}
    checks.check_gpu_memory({**both})
    gpus["0"] = "6143"
    with pytest.raises(LaunchError, match="6 GiB of GPU 0's memory needed"):
        checks.check_gpu_memory({**both})


def test_each_gpu_of_a_server_needs_the_memory(gpus: dict[str, str]) -> None:
    gpus.update({"0": "9000", "1": "100"})
    with pytest.raises(LaunchError, match="GPU 1's memory"):
        checks.check_gpu_memory({"large": server(gpus=[0, 1])})


def test_a_gpu_that_is_not_there_is_said(gpus: dict[str, str]) -> None:
    with pytest.raises(LaunchError, match="GPU 3 can't be used: No devices were found"):
        checks.check_gpu_memory({"small": server(gpus=[3])})


def test_a_machine_without_a_driver_is_sent_to_the_miniature_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(checks.shutil, "which", lambda name: None)
    with pytest.raises(LaunchError, match="tiny-cpu"):
        checks.check_gpu_memory({"small": server(gpus=[0])})
