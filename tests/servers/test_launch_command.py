"""The command line and the environment of a server."""

import sys
from pathlib import Path
from typing import Any

import pytest

from mai_servers.command import api_key, command, environment, visible_gpus
from mai_servers.config import ServerConfig
from mai_servers.errors import LaunchError


def server(**fields: Any) -> ServerConfig:
    return ServerConfig.model_validate({"model": "Org/Small", "port": 8101, "memory_gib": 1} | fields)


def test_the_role_is_the_first_served_name_and_the_models_own_the_second() -> None:
    assert command("small", server(host="0.0.0.0"), 8123) == [
        *(sys.executable, "-m", "vllm.entrypoints.launchers.api_server.entry"),
        *("--model", "Org/Small", "--served-model-name", "small", "Org/Small", "--host", "0.0.0.0", "--port", "8123"),
    ]


@pytest.mark.parametrize(
    ("value", "arguments"),
    [
        ("auto", ["--it", "auto"]),
        (5, ["--it", "5"]),
        (0.5, ["--it", "0.5"]),
        (True, ["--it"]),
        (False, ["--no-it"]),
        (["a", "b"], ["--it", "a", "b"]),
        ({"image": 4}, ["--it", '{"image": 4}']),
    ],
)
def test_an_argument_is_written_as_vllm_reads_it(value: Any, arguments: list[str]) -> None:
    assert command("small", server(vllm={"it": value}), 1)[-len(arguments) :] == arguments


def test_a_bundled_model_is_given_as_its_folder() -> None:
    line = command("small", server(model="mai_servers:tiny/small"), 1)
    assert Path(line[line.index("--model") + 1]).is_absolute()
    assert line[line.index("--served-model-name") + 2] == "mai_servers:tiny/small"


def test_the_servers_own_variables_win_and_the_others_are_kept() -> None:
    made = environment(server(env={"A": "config"}), {"A": "shell", "B": "shell"}, shim=False)
    assert (made["A"], made["B"]) == ("config", "shell")


def test_nothing_is_reported_to_vllms_makers() -> None:
    made = environment(server(), {}, shim=False)
    assert made["VLLM_NO_USAGE_STATS"] == made["DO_NOT_TRACK"] == "1"


def test_compiled_modules_are_kept_for_the_next_start() -> None:
    assert "PYTHONDONTWRITEBYTECODE" not in environment(server(), {"PYTHONDONTWRITEBYTECODE": "1"}, shim=False)


def test_the_shim_comes_before_the_callers_own_path() -> None:
    shim, own = environment(server(), {"PYTHONPATH": "/own"}, shim=True)["PYTHONPATH"].split(":")
    assert (Path(shim) / "sitecustomize.py").is_file()
    assert own == "/own"
    assert environment(server(), {"PYTHONPATH": "/own"}, shim=False)["PYTHONPATH"] == "/own"


@pytest.mark.parametrize(
    ("gpus", "inherited", "used"),
    [([0], None, ["0"]), ([1, 3], None, ["1", "3"]), ([0], "5", ["5"]), ([1, 0], "GPU-a, GPU-b", ["GPU-b", "GPU-a"])],
)
def test_gpus_are_counted_among_those_that_are_visible(gpus: list[int], inherited: str | None, used: list[str]) -> None:
    shell = {} if inherited is None else {"CUDA_VISIBLE_DEVICES": inherited}
    assert visible_gpus(server(gpus=gpus), shell) == used
    assert environment(server(gpus=gpus), shell, shim=False)["CUDA_VISIBLE_DEVICES"] == ",".join(used)


@pytest.mark.parametrize("inherited", ["", "0", "2,"])
def test_a_hidden_gpu_is_an_error(inherited: str) -> None:
    with pytest.raises(LaunchError, match="CUDA_VISIBLE_DEVICES"):
        visible_gpus(server(gpus=[1]), {"CUDA_VISIBLE_DEVICES": inherited})


@pytest.mark.parametrize(
    ("fields", "inherited", "key"),
    [
        ({}, {}, None),
        ({"vllm": {"api-key": "a"}}, {"VLLM_API_KEY": "shell"}, "a"),
        ({"vllm": {"api-key": ["a", "b"]}}, {}, "a"),
        ({"env": {"VLLM_API_KEY": "e"}}, {"VLLM_API_KEY": "shell"}, "e"),
        ({}, {"VLLM_API_KEY": "shell"}, "shell"),
    ],
)
def test_the_warm_up_knows_the_key(fields: dict[str, Any], inherited: dict[str, str], key: str | None) -> None:
    assert api_key(server(**fields), inherited) == key


def test_a_server_on_the_cpu_leaves_the_gpus_alone() -> None:
    assert "CUDA_VISIBLE_DEVICES" not in environment(server(), {}, shim=False)
