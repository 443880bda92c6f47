"""What a pair of servers is: which models, with which vLLM arguments, on which ports and GPUs.

A pair is a YAML file. Those that come with this distribution lie in `configs` and are known by their names.
"""

from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal, get_args

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mai_servers.errors import LaunchError

Role = Literal["small", "large"]
ROLES: tuple[Role, ...] = get_args(Role)

ArgumentName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
ArgumentValue = bool | int | float | str | list[str] | dict[str, JsonValue]

_FOLDER_STARTS = ("/", "./", "../", "~")
_SET_BY_LAUNCHER = {
    "model": "the field `model`",
    "host": "the field `host`",
    "port": "the field `port`",
    "served-model-name": "nothing: it is the role, then the model's own name",
}


class ServerConfig(BaseModel):
    """One vLLM server."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    model: str = Field(
        min_length=1,
        description="Id on the Hugging Face hub; or a folder, starting with /, ./, ../ or ~ and relative to this file; "
        "or package:folder, a folder inside an installed Python package.",
        examples=["Qwen/Qwen3-VL-2B-Instruct", "./my-model", "mai_servers:tiny/small"],
    )
    host: str = Field(default="127.0.0.1", min_length=1, description="Address to listen on; 0.0.0.0 for all.")
    port: int = Field(ge=0, le=65535, description="Port to listen on; 0 for one that is free.")
    gpus: list[Annotated[int, Field(ge=0)]] = Field(
        default=[], description="Which of the visible NVIDIA GPUs to use, counted from 0; none: the CPU."
    )
    memory_gib: float = Field(
        gt=0, description="Free memory needed to start, in GiB: on each of the GPUs, or of the machine on the CPU."
    )
    vllm: dict[ArgumentName, ArgumentValue] = Field(
        default={}, description="Arguments of `vllm serve` without the dashes; true is the bare flag, false its --no-."
    )
    env: dict[str, str] = Field(default={}, description="Environment variables of the server.")

    @field_validator("vllm")
    @classmethod
    def _leaves_the_launcher_its_own(cls, arguments: dict[str, ArgumentValue]) -> dict[str, ArgumentValue]:
        for name in arguments.keys() & _SET_BY_LAUNCHER.keys():
            raise ValueError(f"{name} is set by {_SET_BY_LAUNCHER[name]}")
        return arguments

    @field_validator("gpus")
    @classmethod
    def _names_each_gpu_once(cls, gpus: list[int]) -> list[int]:
        if len(set(gpus)) < len(gpus):
            raise ValueError("names a GPU twice")
        return gpus

    @field_validator("model")
    @classmethod
    def _is_found_from_the_file(cls, model: str, info: ValidationInfo) -> str:
        package, colon, _ = model.partition(":")
        if model.startswith(_FOLDER_STARTS):
            folder: Path = (info.context or {}).get("folder", Path.cwd())
            return str((folder / Path(model).expanduser()).resolve())
        if colon and not (package.isidentifier() and find_spec(package)):
            raise ValueError(f"there is no Python package {package!r} here")
        return model

    @property
    def model_folder(self) -> Path | None:
        """Where the model lies on this machine; None for one that is on the hub."""
        if self.model.startswith("/"):
            return Path(self.model)
        package, colon, folder = self.model.partition(":")
        return Path(str(files(package) / folder)) if colon else None


class PairConfig(BaseModel):
    """A small and a large server that answer together."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    description: str = Field(description="One sentence for people.")
    small: ServerConfig
    large: ServerConfig
    startup_timeout: float = Field(
        default=1800, gt=0, description="Seconds until both must be up, a first download of the weights included."
    )

    @model_validator(mode="after")
    def _ports_differ(self) -> "PairConfig":
        if self.small.port == self.large.port != 0:
            raise ValueError(f"small.port and large.port are both {self.small.port}")
        return self

    def server(self, role: Role) -> ServerConfig:
        """Return the server of a role."""
        return self.small if role == "small" else self.large

    def on_free_ports(self) -> "PairConfig":
        """Return this pair with both servers on ports that are free when they start."""
        return self.model_copy(update={role: self.server(role).model_copy(update={"port": 0}) for role in ROLES})


def config_names() -> list[str]:
    """Return the names of the pairs that come with this distribution."""
    return sorted(path.stem for path in _configs_folder().glob("*.yaml"))


def load_config(path_or_name: str | Path = "tiny-cpu") -> PairConfig:
    """Read a pair of servers.

    Args:
        path_or_name: A YAML file, or the name of a pair that comes with this distribution.

    Raises:
        LaunchError: There is no such file or name, it isn't YAML, or a field is unknown, missing or wrong.
    """
    path = Path(path_or_name)
    if str(path_or_name) in config_names():
        path = _configs_folder() / f"{path_or_name}.yaml"
    elif not path.is_file():
        raise LaunchError(
            f"config: {path_or_name} is neither a file nor a known name", f"Known names: {', '.join(config_names())}."
        )
    try:
        fields = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(fields, dict):
            raise LaunchError(f"config: {path} is not a mapping of fields", "See servers/README.md for the format.")
        return PairConfig.model_validate(fields, context={"folder": path.resolve().parent})
    except ValidationError as error:
        raise LaunchError(f"config: {path}: {'; '.join(_problems(error))}", "Correct the file.") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise LaunchError(f"config: {path} is not YAML: {reason}", "Correct it.") from error


def _configs_folder() -> Path:
    """Return where the YAML files lie: inside the package once installed, beside it in a checkout."""
    package = Path(str(files("mai_servers")))
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"


def _problems(error: ValidationError) -> Iterator[str]:
    """Yield one line for each wrong field: its path and what is wrong."""
    seen = set()
    for problem in error.errors(include_url=False):
        # A value that fits no member of a union is reported once for each, under paths that end in the member's name.
        location = problem["loc"][:3]
        if location in seen:
            continue
        seen.add(location)
        message = problem["msg"]
        if problem["type"] == "extra_forbidden":
            model = PairConfig if len(location) == 1 else ServerConfig
            message = f"unknown field, known are {', '.join(model.model_fields)}"
        elif len(problem["loc"]) > len(location):
            message = f"{problem['input']!r} is not a value that vLLM arguments can have"
        yield ": ".join([".".join(str(part) for part in location), message] if location else [message])
