"""The command line: what is printed where, and the exit codes."""

import base64
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner, Result
from werkzeug import Request, Response

from mai_graph.cli import app
from mai_graph.config import MAIConfig
from tests.openai_server import FakeServer
from tests.scripted import PIXEL

PIXEL_PNG = base64.b64decode(PIXEL.partition(",")[2])
QUESTION = "How many circles are there?"
NOWHERE = "http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1"


@pytest.fixture
def picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A picture in the working folder, in which there is no .env."""
    monkeypatch.chdir(tmp_path)
    Path("pixel.png").write_bytes(PIXEL_PNG)
    return "pixel.png"


@pytest.fixture
def small(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    says = {"simple": "3", "think": "I count 3.\nAnswer: 3", "answer": "3"}
    server = FakeServer.on(httpserver, "small", says)  # type: ignore[arg-type]
    monkeypatch.setenv("MAI_SMALL__URL", server.url)
    return server


@pytest.fixture
def large(httpserver: HTTPServer, monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    server = FakeServer.on(httpserver, "large", {"simple": "3", "transfer": "5"})
    monkeypatch.setenv("MAI_LARGE__URL", server.url)
    return server


@pytest.fixture
def disagreeing(small: FakeServer, large: FakeServer) -> tuple[FakeServer, FakeServer]:
    """Servers that take the longest route."""
    large.says["simple"] = "4"
    return small, large


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(app, arguments, input=stdin)


def text_of(request: dict[str, Any]) -> str:
    return str(request["messages"][0]["content"][-1]["text"])


def pictures_of(request: dict[str, Any]) -> int:
    return sum(part["type"] == "image_url" for part in request["messages"][0]["content"])


def test_the_version_is_printed() -> None:
    result = run("--version")
    assert (result.exit_code, result.stdout.split()[0]) == (0, "mai-graph")


def test_without_a_command_the_help_lists_them() -> None:
    result = run()
    assert all(command in result.output for command in ("serve", "doctor", "ask", "demo"))


def test_the_help_of_a_setting_is_the_configs_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "500")
    shown = run("ask", "--help").stdout
    for field, default in (("anls_threshold", "0.9"), ("think_max_tokens", "1024"), ("prompts", "default")):
        assert f"{MAIConfig.model_fields[field].description} [default: {default}]" in shown


@pytest.mark.usefixtures("small", "large")
def test_stdout_holds_the_answer_and_nothing_else(picture: str) -> None:
    result = run("ask", picture, QUESTION)
    assert (result.exit_code, result.stdout) == (0, "3\n")
    assert "route agreement" in result.stderr


@pytest.mark.usefixtures("small", "large")
def test_json_is_all_that_is_printed_when_asked_for(picture: str) -> None:
    result = run("ask", picture, QUESTION, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    said = json.loads(result.stdout)
    assert (said["answer"], said["route"], said["degraded"]) == ("3", "agreement", None)
    assert {step["node"] for step in said["steps"]} == {"small_agent_short", "large_agent_short"}


@pytest.mark.usefixtures("disagreeing")
def test_trace_shows_every_call_and_both_totals(picture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = run("ask", picture, QUESTION, "--trace")
    assert (result.exit_code, result.stdout) == (0, "5\n")
    calls = ("small_agent_short", "large_agent_short", "small_agent_think", "small_agent_answer", "large_agent_answer")
    for said in (*calls, "critical path", "sum", "600", "512", "7"):
        assert said in result.stderr


def test_several_pictures_are_sent_in_order_before_the_question(
    picture: str, small: FakeServer, large: FakeServer
) -> None:
    result = run("ask", picture, picture, PIXEL, QUESTION)
    assert result.exit_code == 0
    for request in small.requests + large.requests:
        assert pictures_of(request) == 3
        assert text_of(request).startswith(QUESTION)


def test_a_dash_is_the_picture_on_stdin(picture: str, small: FakeServer, large: FakeServer) -> None:
    result = run("ask", "-", picture, QUESTION, stdin=PIXEL_PNG)
    assert result.exit_code == 0
    assert pictures_of(large.requests[0]) == 2


@pytest.mark.usefixtures("small", "large")
def test_a_question_may_be_longer_than_a_file_name(picture: str) -> None:
    assert run("ask", picture, QUESTION * 20).exit_code == 0


def test_options_are_lettered_in_the_order_given(picture: str, small: FakeServer, large: FakeServer) -> None:
    small.says["simple"], large.says["simple"] = "B", "B. blue"
    result = run("ask", picture, "What colour is it?", "-o", "red", "--option", "blue")
    assert (result.exit_code, result.stdout) == (0, "B\n")
    assert "\nA. red\nB. blue\n" in text_of(large.requests[0])


def test_settings_reach_the_graph(picture: str, disagreeing: tuple[FakeServer, FakeServer]) -> None:
    result = run("ask", picture, QUESTION, "--json", "--one-stage", "--think-max-tokens", "77", "--metric", "em")
    said = json.loads(result.stdout)
    assert "small_agent_answer" not in {step["node"] for step in said["steps"]}
    assert said["verdict"] == {"agree": False, "metric": "em", "guessed": False, "score": 0.0}
    assert disagreeing[0].requests[1]["max_completion_tokens"] == 77


def test_typed_endpoints_go_before_those_of_the_environment(
    picture: str, small: FakeServer, large: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MAI_SMALL__URL", NOWHERE[0])
    monkeypatch.setenv("MAI_SMALL__MODEL", "of-the-environment")
    result = run("ask", picture, QUESTION, "--small-url", small.url, "--large-model", "typed")
    assert result.exit_code == 0
    assert (small.requests[0]["model"], large.requests[0]["model"]) == ("of-the-environment", "typed")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        pytest.param([QUESTION], 1, "images: no picture", id="no picture"),
        pytest.param(["pixel.png"], 1, "question: 'pixel.png' is a file", id="no question"),
        pytest.param([], 2, "Missing argument 'QUESTION'", id="nothing"),
        pytest.param([QUESTION, "pixel.png"], 1, "comes last", id="question first"),
        pytest.param(["pixel.png", "  "], 1, "question: is blank", id="blank question"),
        pytest.param(["no.png", QUESTION], 1, "images[0]: there is no file 'no.png'", id="no such file"),
        pytest.param(["pixel.png", ".", QUESTION], 1, "images[1]: '.' is a directory", id="a directory"),
        pytest.param(["-", "pixel.png", "-", QUESTION], 1, "images[0]: - (stdin) is given more", id="stdin twice"),
        pytest.param(["-", QUESTION], 1, "images[0]: is empty", id="nothing on stdin"),
        pytest.param(["http://127.0.0.1:9/a.png", QUESTION], 1, "images[0]", id="a private URL"),
        pytest.param(["pixel.png"] * 5 + [QUESTION], 1, "images: 5 pictures", id="too many pictures"),
        pytest.param(["pixel.png", QUESTION, "-o", "red"], 1, "options: only one", id="one option"),
        pytest.param(["pixel.png", QUESTION, "-o", "a", "-o", "A"], 1, "options[1]", id="an option twice"),
        pytest.param(["pixel.png", QUESTION, "--metric", "bleu"], 2, "--metric", id="unknown metric"),
        pytest.param(["pixel.png", QUESTION, "--metric", "choice"], 1, "metric", id="choice without options"),
        pytest.param(["pixel.png", QUESTION, "--temperature", "9"], 1, "temperature: 9.0", id="out of range"),
        pytest.param(["pixel.png", QUESTION, "--temperature", "hot"], 2, "--temperature", id="no number"),
        pytest.param(["pixel.png", QUESTION, "--prompts", "none"], 1, "prompts: no prompt set", id="no prompt set"),
        pytest.param(["pixel.png", QUESTION, "--small-url", "x"], 1, "small.url: 'x'", id="no URL"),
        pytest.param(["pixel.png", QUESTION, "--large-model", ""], 1, "MAI_LARGE__MODEL", id="no model name"),
        pytest.param(["pixel.png", QUESTION, "--json", "--trace"], 2, "--trace", id="JSON and trace"),
        pytest.param(["pixel.png", QUESTION, "--loud"], 2, "No such option: --loud", id="unknown option"),
    ],
)
def test_bad_input_is_one_error_before_any_model_is_called(
    picture: str, small: FakeServer, large: FakeServer, arguments: list[str], code: int, words: str
) -> None:
    result = run("ask", *arguments)
    assert (result.exit_code, result.stdout) == (code, "")
    assert words in result.stderr
    if code == 1:
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
    assert not small.requests + large.requests


@pytest.mark.parametrize(
    ("variable", "value"), [("MAI_SMALL__URL", "nowhere"), ("MAI_SMALL", "{"), ("MAI_LOCAL_FILES", "perhaps")]
)
def test_a_wrong_variable_of_the_environment_is_named(
    picture: str, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    result = run("ask", picture, QUESTION)
    assert result.exit_code == 1
    assert variable in result.stderr or variable.removeprefix("MAI_").lower() in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_degraded_answer_is_printed_with_a_warning_and_an_exit_code_of_its_own(picture: str, form: list[str]) -> None:
    result = run("ask", picture, QUESTION, "--large-url", NOWHERE[1], *form)
    assert result.exit_code == 3
    assert "3" in (json.loads(result.stdout)["answer"] if form else result.stdout)
    (warning,) = [line for line in result.stderr.splitlines() if line.startswith("Warning: ")]
    assert NOWHERE[1] in warning
    assert result.stderr.count(NOWHERE[1]) == 1, "the package's log doesn't say it again"


def test_that_no_server_answers_is_one_error_with_both_addresses(picture: str) -> None:
    result = run("ask", picture, QUESTION, "--small-url", NOWHERE[0], "--large-url", NOWHERE[1])
    assert (result.exit_code, result.stdout) == (1, "")
    assert all(url in result.stderr for url in NOWHERE)
    assert result.stderr.count("\n") == 1


def test_ctrl_c_ends_a_question_at_once_and_quietly(picture: str, httpserver: HTTPServer) -> None:
    called, done = threading.Event(), threading.Event()

    def stall(request: Request) -> Response:
        called.set()
        done.wait(60)
        return Response("{}")

    httpserver.expect_request("/v1/chat/completions").respond_with_handler(stall)
    url = httpserver.url_for("/v1")
    command = [sys.executable, "-c", "from mai_graph.cli import app; app()", "ask", picture, QUESTION]
    process = subprocess.Popen(
        [*command, "--small-url", url, "--large-url", url], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert called.wait(120)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=30)
    finally:
        done.set()
        process.kill()
    assert (process.returncode, stdout, stderr) == (130, "", "")


@pytest.mark.parametrize("command", ["serve", "demo"])
def test_a_missing_mai_servers_is_one_error_with_the_remedy(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setitem(sys.modules, "mai_servers", None)
    result = run(command)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: mai-servers")
    assert "pip install 'mai-servers[cpu]'" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(("arguments", "only"), [([], None), (["small"], "small"), (["large"], "large")])
def test_serve_starts_the_miniature_pair_or_one_of_it(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], only: str | None
) -> None:
    from mai_servers import launch

    runs = []
    monkeypatch.setattr(launch, "run", lambda config, only: runs.append((config, only)))
    assert run("serve", *arguments).exit_code == 0
    assert runs == [(launch.load_config("tiny-cpu"), only)]


def test_serve_shows_why_a_server_could_not_start_and_the_end_of_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    from mai_servers import launch

    def fail(*arguments: object) -> None:
        raise launch.LaunchError("the small server died", "See its log.", "line 1\nline 2")

    monkeypatch.setattr(launch, "run", fail)
    result = run("serve")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0] == "Error: the small server died. See its log."
    assert result.stderr.splitlines()[-2:] == ["line 1", "line 2"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [(["medium"], 2, "medium"), (["--config", "nowhere.yaml"], 1, "tiny-cpu"), (["small", "large"], 2, "large")],
)
def test_serve_refuses_what_it_does_not_know(arguments: list[str], code: int, words: str) -> None:
    result = run("serve", *arguments)
    assert result.exit_code == code
    assert words in result.stderr
