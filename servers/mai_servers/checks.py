"""What can be known to be wrong before a server is started: each check raises one `LaunchError` or returns."""

import errno
import json
import os
import shutil
import socket
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from importlib.util import find_spec

import psutil

from mai_servers.command import visible_gpus
from mai_servers.config import Role, ServerConfig
from mai_servers.errors import LaunchError


def check_all(servers: Mapping[Role, ServerConfig]) -> None:
    """Check everything that the servers need together.

    Raises:
        LaunchError: vLLM is missing, a model folder isn't one, a port is taken, or memory is short.
    """
    check_vllm()
    for role, server in servers.items():
        check_model(role, server)
        check_port(role, server)
    check_gpu_memory(servers)
    check_memory(servers, psutil.virtual_memory().available / 2**30)


def check_vllm() -> None:
    """Check that vLLM is installed where this runs.

    Raises:
        LaunchError: It isn't.
    """
    if find_spec("vllm") is None:
        raise LaunchError(
            "vLLM is not installed in this Python environment",
            "On a machine with an NVIDIA GPU: pip install 'mai-servers[cuda]'. Without: pip install 'mai-servers[cpu]' "
            "--extra-index-url https://download.pytorch.org/whl/cpu (or `make` in the repository does it).",
        )


def check_model(role: Role, server: ServerConfig) -> None:
    """Check that a model on this machine is a folder with a readable config.json and weights.

    Raises:
        LaunchError: It isn't.
    """
    folder = server.model_folder
    if folder is None:
        return
    remedy = "It must be a folder with config.json and *.safetensors, as save_pretrained() or a hub download makes it."
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise LaunchError(f"{role}.model: {folder} {what}", remedy)
    try:
        json.loads((folder / "config.json").read_text(encoding="utf-8"))["architectures"]
    except FileNotFoundError as error:
        raise LaunchError(f"{role}.model: {folder} has no config.json", remedy) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LaunchError(f"{role}.model: {folder / 'config.json'} names no model architecture", remedy) from error
    weights = [file for pattern in ("*.safetensors", "*.bin", "*.gguf") for file in folder.glob(pattern)]
    if not weights:
        raise LaunchError(f"{role}.model: {folder} has no weights", remedy)
    if empty := [file.name for file in weights if file.stat().st_size == 0]:
        raise LaunchError(f"{role}.model: {folder / empty[0]} is empty", "Download or copy the model again.")


def check_port(role: Role, server: ServerConfig) -> None:
    """Check that a server can listen on its address.

    Raises:
        LaunchError: The port is taken, or the address isn't this machine's.
    """
    try:
        with bound_socket(server.host, server.port):
            return
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise LaunchError(
                f"{role}.port: {server.port} on {server.host} is in use{_user_of(server.port)}",
                "Stop that program (another `mai-graph serve`?), or set another port in the config.",
            ) from error
        raise LaunchError(
            f"{role}.host: can't listen on {server.host} port {server.port}: {error.strerror}",
            "Use 127.0.0.1 for this machine only or 0.0.0.0 for all its addresses, and a port above 1023.",
        ) from error


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that holds an address; port 0 takes a free one.

    Raises:
        OSError: The address can't be had.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    return sock


def check_memory(servers: Mapping[Role, ServerConfig], free_gib: float) -> None:
    """Check that the machine's free memory suffices for all servers that run on its CPU.

    Raises:
        LaunchError: It doesn't.
    """
    on_cpu = {role: server for role, server in servers.items() if not server.gpus}
    _check_sum(on_cpu, free_gib, "of the machine's memory")


def check_gpu_memory(servers: Mapping[Role, ServerConfig]) -> None:
    """Check that each GPU exists and has the free memory for all servers that use it.

    Raises:
        LaunchError: One doesn't, or the NVIDIA driver can't be asked.
    """
    by_gpu: dict[str, dict[Role, ServerConfig]] = defaultdict(dict)
    for role, server in servers.items():
        for name in visible_gpus(server, os.environ) if server.gpus else []:
            by_gpu[name][role] = server
    for name, sharing in by_gpu.items():
        _check_sum(sharing, _free_gpu_gib(name), f"of GPU {name}'s memory")


def _check_sum(servers: Mapping[Role, ServerConfig], free_gib: float, what: str) -> None:
    need = sum(server.memory_gib for server in servers.values())
    if need > free_gib:
        parts = " + ".join(f"{role}.memory_gib {server.memory_gib:g}" for role, server in servers.items())
        raise LaunchError(
            f"{need:g} GiB {what} needed ({parts}), {free_gib:.1f} GiB free",
            "Stop other programs, start one server only (`mai-graph serve small`), or choose smaller models.",
        )


def _free_gpu_gib(name: str) -> float:
    """Ask the NVIDIA driver for the free memory of one GPU, given by number or UUID."""
    if not shutil.which("nvidia-smi"):
        raise LaunchError(
            "The config wants an NVIDIA GPU, and no driver (nvidia-smi) is installed here",
            "On a machine without one use the config tiny-cpu.",
        )
    answer = subprocess.run(  # noqa: S603
        ["nvidia-smi", f"--id={name}", "--query-gpu=memory.free", "--format=csv,noheader,nounits"],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    try:
        return int(answer.stdout) / 1024
    except ValueError as error:
        reason = (answer.stdout + answer.stderr).strip() or f"exit code {answer.returncode}"
        raise LaunchError(f"GPU {name} can't be used: {reason}", "`nvidia-smi` lists those that are there.") from error


def _user_of(port: int) -> str:
    """Return who listens on a port, as far as this user may know it."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port and connection.pid:
                return f" by {psutil.Process(connection.pid).name()} (process {connection.pid})"
    except psutil.Error:
        pass
    return ""
