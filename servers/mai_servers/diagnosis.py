"""Why a server died, read from its log."""

import re
import signal

_SEARCHED_LINES = 2000

# First match wins, so the specific stand before the general.
_CAUSES = [
    (r"unrecognized arguments?: (?P<it>.*)", "vLLM does not know the argument {it}: correct `vllm` in the config"),
    (r"error: argument (?P<it>.*)", "vLLM refuses an argument, {it}: correct `vllm` in the config"),
    (r"address already in use", "another program took the port meanwhile: start again or set another port"),
    (
        r"CUDA out of memory|OutOfMemoryError|Free memory on device .* is less than",
        "the GPU's memory is too small: lower kv-cache-memory-bytes, gpu-memory-utilization or max-model-len, "
        "or choose a smaller model",
    ),
    (
        r"DefaultCPUAllocator: can't allocate|Cannot allocate memory|std::bad_alloc|Available memory on node",
        "the machine's memory is too small: stop other programs or lower kv-cache-memory-bytes",
    ),
    (
        r"No available memory for the cache blocks|KV cache is needed|larger than the available KV cache",
        "the KV cache is too small for one prompt: lower max-model-len or raise kv-cache-memory-bytes",
    ),
    (
        r"gated repo|401 Client Error|403 Client Error",
        "the model needs permission: accept its licence on the hub and set HF_TOKEN",
    ),
    (
        r"LocalEntryNotFoundError|RepositoryNotFoundError|couldn't connect to|not a valid model identifier"
        r"|outgoing traffic has been disabled|Can't load the configuration of",
        "the model can't be had: check its name and the connection to the hub, or give a folder",
    ),
    (r"architectures? .* (?:are|is) not supported", "this vLLM can't run that architecture: choose another model"),
    (
        r"SafetensorError|Error while deserializing|header too large",
        "the weights can't be read: download or copy the model again",
    ),
    (r"operator torchvision::nms does not exist", "torchvision doesn't match torch: reinstall vLLM's requirements"),
    (
        r"no kernel image is available|CUDA driver version is insufficient|Failed to infer device type",
        "vLLM can't use this machine's GPU: install the build of vLLM that fits its driver",
    ),
    (r"ModuleNotFoundError: No module named '(?P<it>[^']+)'", "the Python package {it} is missing: reinstall vLLM"),
]

# The last exceptions in vLLM's log only say that an earlier one was fatal.
_ERROR_LINE = re.compile(r"\b(?P<it>[A-Z]\w*(?:Error|Exception): (?!Engine core initialization failed).+)")


def likely_cause(log: str, exit_code: int) -> str:
    """Return the likely cause of a server's death, for a sentence that names the server.

    Args:
        log: What it wrote.
        exit_code: Of its process; negative for a signal, as `subprocess` reports it.
    """
    lines = log.splitlines()[-_SEARCHED_LINES:]
    for pattern, cause in _CAUSES:
        for line in reversed(lines):
            if found := re.search(pattern, line, re.IGNORECASE):
                return cause.format(**found.groupdict())
    for line in reversed(lines):
        if found := _ERROR_LINE.search(line):
            return found["it"].rstrip(".")
    if exit_code == -signal.SIGKILL:
        return "it was killed from outside, by hand or by the system because memory ran out (see `dmesg`)"
    return f"unknown; it ended with {_ending(exit_code)}"


def last_lines(log: str, count: int = 15) -> str:
    """Return the end of a log for people: its last lines that aren't blank."""
    return "\n".join([line for line in log.splitlines() if line.strip()][-count:])


def _ending(exit_code: int) -> str:
    return f"signal {signal.Signals(-exit_code).name}" if exit_code < 0 else f"exit code {exit_code}"
