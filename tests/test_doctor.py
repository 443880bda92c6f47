"""What `mai-graph doctor` finds, and what it says to do."""

import json
from collections.abc import Callable

import pytest
from pytest_httpserver import HTTPServer
from typer.testing import CliRunner

from mai_graph import Endpoint
from mai_graph.cli import app
from mai_graph.doctor import Check, Diagnosis, check_environment, check_server
from tests.openai_server import FakeServer

NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
def server(httpserver: HTTPServer) -> FakeServer:
    return FakeServer.on(httpserver, "small", {"simple": "a white picture"})


def checks_of(server: FakeServer, **endpoint: str) -> list[Check]:
    return list(check_server("small", Endpoint.model_validate({"url": server.url, "model": "small", **endpoint})))


def test_a_server_that_does_all_the_graph_needs_passes_every_check(server: FakeServer) -> None:
    checks = checks_of(server)
    assert [(check.name, check.status) for check in checks] == [
        ("reachable", "ok"),
        ("model", "ok"),
        ("pictures", "ok"),
        ("logprobs", "ok"),
        ("prefix cache", "ok"),
    ]


def test_the_prefix_cache_is_looked_for_in_the_second_of_two_equal_requests(server: FakeServer) -> None:
    checks_of(server)
    first, second = server.requests
    assert first["messages"] == second["messages"]
    assert first["messages"][0]["content"][0]["type"] == "image_url"
    assert len(first["messages"][0]["content"][1]["text"]) > 300, "shorter than a block, nothing would be cached"


def refuse(status: int, message: str) -> Callable[[FakeServer], None]:
    return lambda server: setattr(server, "problem", (status, message))


@pytest.mark.parametrize(
    ("spoil", "name", "remedy"),
    [
        pytest.param(lambda s: setattr(s, "model", "other"), "model", "--small-model", id="serves another model"),
        pytest.param(refuse(400, "not a multimodal model"), "pictures", "vision-language model", id="text only"),
        pytest.param(lambda s: setattr(s, "logprobs", False), "logprobs", "returns logprobs", id="no logprobs"),
        pytest.param(
            lambda s: setattr(s, "cached_tokens", None),
            "prefix cache",
            "--enable-prompt-tokens-details",
            id="doesn't report cached tokens",
        ),
        pytest.param(
            lambda s: setattr(s, "cached_tokens", 0), "prefix cache", "--enable-prefix-caching", id="prefix cache off"
        ),
    ],
)
def test_what_is_off_is_named_with_its_remedy(
    server: FakeServer, spoil: Callable[[FakeServer], None], name: str, remedy: str
) -> None:
    spoil(server)
    off = [check for check in checks_of(server) if check.status == "off"]
    assert [check.name for check in off] == [name]
    assert remedy in off[0].remedy


def test_a_server_that_is_down_is_the_only_thing_said_about_it(server: FakeServer) -> None:
    (check,) = checks_of(server, url=NOWHERE)
    assert (check.name, check.status) == ("reachable", "off")
    assert NOWHERE in check.found
    assert "mai-graph serve small" in check.remedy


def test_a_proxy_that_gets_the_requests_is_named(server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "elsewhere.test")
    monkeypatch.setenv("no_proxy", "elsewhere.test")
    (check,) = checks_of(server)
    assert "add 127.0.0.1 to NO_PROXY" in check.remedy.replace("localhost", "127.0.0.1")


@pytest.mark.parametrize(
    ("status", "remedy"), [(401, "MAI_SMALL__API_KEY"), (404, "ends in /v1")], ids=["key refused", "wrong path"]
)
def test_a_refusal_says_what_to_set(httpserver: HTTPServer, status: int, remedy: str) -> None:
    httpserver.expect_request("/v1/models").respond_with_json({"error": {"message": "no"}}, status)
    (check,) = check_server("small", Endpoint(url=httpserver.url_for("/v1"), model="small"))
    assert remedy in check.remedy


def test_the_environment_lists_the_libraries_and_the_hardware() -> None:
    checks = {check.name: check for check in check_environment()}
    assert list(checks) == [
        "Python",
        "langgraph",
        "langchain-core",
        "langchain-openai",
        "mai-servers",
        "vLLM",
        "hardware",
    ]
    assert checks["langgraph"].status == "ok"


def test_a_library_of_another_version_than_this_package_needs_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mai_graph.doctor.version", lambda name: "0.1")
    checks = {check.name: check for check in check_environment()}
    assert checks["langgraph"].status == "off"
    assert checks["langgraph"].remedy.startswith("pip install 'langgraph")


def test_that_nothing_to_serve_with_is_installed_is_a_note_only() -> None:
    note = Check(about="environment", name="vLLM", status="note", found="not installed")
    assert Diagnosis(checks=[note]).ok
    assert not Diagnosis(checks=[note, note.model_copy(update={"status": "off"})]).ok


def test_the_command_fails_when_something_is_off_and_its_json_says_what(server: FakeServer) -> None:
    arguments = ["doctor", "--json", "--small-url", server.url, "--large-url", NOWHERE]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    said = json.loads(result.stdout)
    assert said["ok"] is False
    assert [check["about"] for check in said["checks"] if check["status"] == "off"] == ["large"]


def test_the_command_shows_each_check_and_its_remedy(httpserver: HTTPServer, server: FakeServer) -> None:
    large = FakeServer.on(httpserver, "large", {"simple": "white"})
    both = ["doctor", "--small-url", server.url, "--large-url", large.url]
    well = CliRunner().invoke(app, both)
    assert (well.exit_code, well.stdout.count("prefix cache"), "✗" in well.stdout) == (0, 2, False), well.stdout
    large.cached_tokens = 0
    ill = CliRunner().invoke(app, both)
    assert (ill.exit_code, ill.stdout.count("✗")) == (1, 1)
    assert "--enable-prefix-caching" in ill.stdout
