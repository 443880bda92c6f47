"""Why a server died, from lines as vLLM, torch and the hub client write them (shortened)."""

import pytest

from mai_servers.diagnosis import last_lines, likely_cause

ENGINE = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"


@pytest.mark.parametrize(
    ("log", "exit_code", "said"),
    [
        ("api_server.py: error: unrecognized arguments: --colour red", 2, "does not know the argument --colour red"),
        ("error: argument --dtype: invalid choice: 'int3'", 2, "refuses an argument, --dtype: invalid choice: 'int3'"),
        ("OSError: [Errno 98] Address already in use", 1, "took the port"),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", 1, "the GPU's memory is too small"),
        (
            "ValueError: Free memory on device cuda:0 (3.1/79.2 GiB) on startup is less than",
            1,
            "GPU's memory is too small",
        ),
        ("RuntimeError: [enforce fail] DefaultCPUAllocator: can't allocate memory", 1, "machine's memory is too small"),
        ("ValueError: No available memory for the cache blocks.", 1, "KV cache is too small"),
        (
            "ValueError: To serve at least one request, 2.25 GiB KV cache is needed, which is larger",
            1,
            "KV cache is too",
        ),
        ("OSError: You are trying to access a gated repo.", 1, "accept its licence"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", 1, "the model can't be had"),
        ("ValueError: Model architectures ['Nope'] are not supported for now.", 1, "can't run that architecture"),
        ("safetensors_rust.SafetensorError: Error while deserializing header", 1, "weights can't be read"),
        ("RuntimeError: operator torchvision::nms does not exist", 1, "torchvision doesn't match torch"),
        ("ModuleNotFoundError: No module named 'timm'", 1, "package timm is missing"),
        ("RuntimeError: Failed to infer device type", 1, "can't use this machine's GPU"),
        (
            "(EngineCore pid=7) ValueError: No common block size for 16.\n" + ENGINE,
            1,
            "ValueError: No common block size",
        ),
        ("INFO ready", -9, "killed from outside"),
        ("INFO ready", -11, "ended with signal SIGSEGV"),
        ("", 3, "ended with exit code 3"),
    ],
)
def test_the_likely_cause_is_read_from_the_log(log: str, exit_code: int, said: str) -> None:
    assert said.lower() in likely_cause(f"INFO 12-01 start\n{log}\nINFO bye", exit_code).lower()


def test_a_cause_outweighs_the_signal_that_ended_the_process() -> None:
    assert "took the port" in likely_cause("OSError: address already in use", -9)


def test_a_warning_about_an_optional_module_is_no_cause() -> None:
    assert likely_cause("WARNING Failed to import _C: No module named 'vllm._C'", -9).startswith("it was killed")


def test_the_last_lines_leave_blank_ones_out() -> None:
    assert last_lines("\n".join(f"{i}\n \n" for i in range(9)), 3) == "6\n7\n8"
