"""What the launcher promises, on vLLM itself."""

import base64
import io
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from PIL import Image, ImageDraw

from mai_servers import launch
from mai_servers.config import PairConfig
from mai_servers.errors import LaunchError
from tests.conftest import Servers

pytestmark = pytest.mark.servers

# A block of the prefix cache is 32 tokens: the picture's 12 and a question of some length fill one.
QUESTION = "How many red circles are there?\nA. 1\nB. 2\nC. 3\nD. 4"
BLOCK = 32


def picture(colour: str) -> str:
    image = Image.new("RGB", (512, 384), "white")
    ImageDraw.Draw(image).ellipse((40, 40, 100, 100), fill=colour)
    png = io.BytesIO()
    image.save(png, "PNG")
    return f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"


def ask(url: str, model: str, image: str, instruction: str) -> dict[str, Any]:
    content = [
        {"type": "image_url", "image_url": {"url": image}},
        {"type": "text", "text": f"{QUESTION}\n{instruction}"},
    ]
    answer = httpx.post(
        f"{url}/chat/completions",
        json={
            "model": model,
            "messages": [{"role": "user", "content": content}],
            "temperature": 0,
            "max_tokens": 24,
            "logprobs": True,
        },
        timeout=120,
    )
    return dict(answer.raise_for_status().json())


def cached(answer: dict[str, Any]) -> int:
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


@pytest.fixture(params=["small", "large"])
def endpoint(request: pytest.FixtureRequest, servers: Servers) -> tuple[str, str]:
    """Each server's URL and model name."""
    return {
        "small": (servers.small_url, servers.small_model),
        "large": (servers.large_url, servers.large_model),
    }[request.param]


def test_a_second_instruction_finds_the_picture_and_the_question_in_the_cache(endpoint: tuple[str, str]) -> None:
    image = picture("red")
    first = ask(*endpoint, image, "Answer with one word.")
    second = ask(*endpoint, image, "Think step by step.")
    assert cached(first) == 0
    assert cached(second) == BLOCK


def test_another_picture_is_not_taken_from_the_cache(endpoint: tuple[str, str]) -> None:
    ask(*endpoint, picture("green"), "Answer with one word.")
    assert cached(ask(*endpoint, picture("blue"), "Answer with one word.")) == 0


def test_greedy_answers_repeat_with_and_without_the_cache(endpoint: tuple[str, str]) -> None:
    image = picture("yellow")
    answers = [ask(*endpoint, image, "Think step by step.")["choices"][0] for _ in range(3)]
    assert len({choice["message"]["content"] for choice in answers}) == 1
    assert all(len(choice["logprobs"]["content"]) > 0 for choice in answers)


def test_a_server_knows_its_role_and_its_models_own_name(endpoint: tuple[str, str]) -> None:
    url, role = endpoint
    names = [model["id"] for model in httpx.get(f"{url}/models").json()["data"]]
    assert names == [role, f"mai_servers:tiny/{role}"]


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Logs of dead servers are kept: in the test's own folder."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def lives(process: psutil.Process) -> bool:
    """Whether a process runs; one that ended but that nobody has asked about yet doesn't."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def tiny() -> PairConfig:
    return launch.load_config("tiny-cpu").on_free_ports()


def test_a_dead_engine_is_noticed_and_nothing_of_its_server_is_left() -> None:
    with launch.serve(tiny(), "small") as pair:
        family = psutil.Process(pair.small.pid).children(recursive=True)
        next(child for child in family if "EngineCore" in " ".join(child.cmdline())).kill()
        with pytest.raises(LaunchError, match="The small server died"):
            pair.wait()
    assert not [child for child in family if lives(child)]


def test_a_model_that_vllm_can_not_run_ends_the_start_with_its_reason(tmp_path: Path) -> None:
    source = tiny().small.model_folder
    assert source is not None
    for file in source.iterdir():
        (tmp_path / file.name).symlink_to(file)
    (tmp_path / "config.json").unlink()
    config = json.loads((source / "config.json").read_text())
    config["architectures"] = ["NoSuchModel"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    pair = tiny()
    pair = pair.model_copy(update={"small": pair.small.model_copy(update={"model": str(tmp_path)})})
    with pytest.raises(LaunchError) as error, launch.serve(pair, "small"):
        pytest.fail("it started")
    assert "this vLLM can't run that architecture" in error.value.problem
    assert "NoSuchModel" in Path(error.value.remedy.rsplit(": ", 1)[1]).read_text()


PROGRAM = """
import signal, sys
from rich.console import Console
from mai_servers import launch
signal.signal(signal.SIGINT, signal.default_int_handler)
launch.run(launch.load_config("tiny-cpu").on_free_ports(), "large", console=Console(file=sys.stdout, width=200))
"""


def test_ctrl_c_stops_the_server_with_all_its_processes() -> None:
    with subprocess.Popen([sys.executable, "-u", "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert any("Ctrl-C stops" in line for line in program.stdout)
        family = psutil.Process(program.pid).children(recursive=True)
        program.send_signal(signal.SIGINT)
        assert "Stopped." in program.stdout.read()
    assert program.returncode == 0
    assert len(family) >= 2
    assert not [child for child in family if lives(child)]
