"""What a pair of servers may be, and what is said about one that can't."""

from pathlib import Path
from typing import Any

import pytest
import yaml

import mai_servers
from mai_servers.config import PairConfig, config_names, load_config
from mai_servers.errors import LaunchError


def fields(**changes: Any) -> dict[str, Any]:
    """A valid pair with changes to its small server; None removes a field."""
    small = {"model": "Org/Small", "port": 8101, "memory_gib": 1.0} | changes
    return {
        "description": "Two models.",
        "small": {name: value for name, value in small.items() if value is not None},
        "large": {"model": "Org/Large", "port": 8102, "memory_gib": 2},
    }


def written(folder: Path, content: dict[str, Any] | str) -> Path:
    path = folder / "pair.yaml"
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


@pytest.mark.parametrize("name", config_names())
def test_every_pair_that_comes_along_is_valid(name: str) -> None:
    config = load_config(name)
    assert (config.small.port, config.large.port) == (8101, 8102)
    assert config.description.endswith(".")


def test_the_pairs_that_come_along() -> None:
    assert config_names() == ["internvl3_5-2b-8b-1gpu", "qwen3-vl-2b-8b-1gpu", "qwen3-vl-2b-8b-2gpu", "tiny-cpu"]


def test_the_miniature_pair_is_the_default_and_lies_inside_the_package() -> None:
    tiny = Path(mai_servers.__file__).parent / "tiny"
    config = load_config()
    assert (config.small.model_folder, config.large.model_folder) == (tiny / "small", tiny / "large")


def test_two_large_models_on_one_gpu_share_it() -> None:
    config = load_config("qwen3-vl-2b-8b-1gpu")
    assert config.small.gpus == config.large.gpus == [0]
    # Each would count the other's memory as its own if it measured while both start.
    assert all("kv-cache-memory-bytes" in server.vllm for server in (config.small, config.large))
    assert load_config("qwen3-vl-2b-8b-2gpu").large.gpus == [1]


@pytest.mark.parametrize(
    ("model", "folder"),
    [
        ("Org/Small", None),
        ("./small", "{file}/small"),
        ("../small", "{parent}/small"),
        ("/models/small", "/models/small"),
        ("~/small", "{home}/small"),
    ],
)
def test_a_model_folder_is_relative_to_the_file(tmp_path: Path, model: str, folder: str | None) -> None:
    names = {"file": tmp_path, "parent": tmp_path.parent, "home": Path.home()}
    expected = None if folder is None else Path(folder.format(**names))
    assert load_config(written(tmp_path, fields(model=model))).small.model_folder == expected


def test_free_ports_are_asked_for_both() -> None:
    config = load_config("tiny-cpu").on_free_ports()
    assert (config.small.port, config.large.port) == (0, 0)
    assert config.small.model == load_config("tiny-cpu").small.model


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"modle": "x"}, "small.modle: unknown field, known are model, host, port, gpus, memory_gib, vllm, env"),
        ({"model": None}, "small.model: Field required"),
        ({"model": ""}, "small.model: String should have at least 1 character"),
        (
            {"model": "no_such_package:tiny"},
            "small.model: Value error, there is no Python package 'no_such_package' here",
        ),
        ({"port": "http"}, "small.port: Input should be a valid integer"),
        ({"port": 70000}, "small.port: Input should be less than or equal to 65535"),
        ({"port": 8102}, "small.port and large.port are both 8102"),
        ({"gpus": 0}, "small.gpus: Input should be a valid list"),
        ({"gpus": [-1]}, "small.gpus.0: Input should be greater than or equal to 0"),
        ({"gpus": [1, 1]}, "small.gpus: Value error, names a GPU twice"),
        ({"memory_gib": 0}, "small.memory_gib: Input should be greater than 0"),
        ({"memory_gib": float("nan")}, "small.memory_gib: Input should be a finite number"),
        ({"vllm": ["--dtype"]}, "small.vllm: Input should be a valid dictionary"),
        ({"vllm": {"port": 1}}, "small.vllm: Value error, port is set by the field `port`"),
        ({"vllm": {"--dtype": "auto"}}, "small.vllm.--dtype: "),
        ({"vllm": {"dtype": None}}, "small.vllm.dtype: None is not a value that vLLM arguments can have"),
        ({"env": {"A": 1}}, "small.env.A: Input should be a valid string"),
    ],
)
def test_a_wrong_field_is_named(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    path = written(tmp_path, fields(**changes))
    with pytest.raises(LaunchError) as error:
        load_config(path)
    assert str(path) in error.value.problem
    assert said in error.value.problem
    assert "\n" not in error.value.problem


def test_every_wrong_field_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(LaunchError) as error:
        load_config(written(tmp_path, fields(port=-1, memory_gib="much", vllm={"dtype": None})))
    assert [part.split(":")[0] for part in error.value.problem.split("yaml: ")[1].split("; ")] == [
        "small.port",
        "small.memory_gib",
        "small.vllm.dtype",
    ]


def test_an_unknown_field_of_the_pair_is_named(tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"yaml: medium: unknown field, known are description, small, large, startup"):
        load_config(written(tmp_path, fields() | {"medium": {}}))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("small: [", "is not YAML"),
        ("- small", "is not a mapping"),
        ("", "is not a mapping"),
        ("a: !!python/x 1", "not YAML"),
    ],
)
def test_a_file_that_is_no_configuration_is_refused(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(LaunchError, match=said):
        load_config(written(tmp_path, content))


@pytest.mark.parametrize("name", ["tiny-gpu", "", "no/such/file.yaml", "."])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(LaunchError) as error:
        load_config(name)
    assert "tiny-cpu" in error.value.remedy


def test_a_pair_can_be_made_in_python_too() -> None:
    assert PairConfig.model_validate(fields()).small.host == "127.0.0.1"
