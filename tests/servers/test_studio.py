"""`langgraph dev`, as Studio and any HTTP client see it: forms, drawing, runs with pictures, clear errors."""

import base64
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.client import SyncLangGraphClient

from tests.conftest import Servers

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
PICTURE = "data:image/png;base64," + base64.b64encode((ROOT / "examples/shapes.png").read_bytes()).decode()
QUESTION = {"question": "How many green shapes are there?", "images": [PICTURE]}


@pytest.fixture(scope="module")
def studio(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SyncLangGraphClient]:
    """A client of a LangGraph server on a free port, stopped at the end."""
    port, log = free_port(), tmp_path_factory.mktemp("studio") / "log"
    endpoints = {
        "MAI_SMALL__URL": servers.small_url,
        "MAI_SMALL__MODEL": servers.small_model,
        "MAI_LARGE__URL": servers.large_url,
        "MAI_LARGE__MODEL": servers.large_model,
    }
    with log.open("w") as written:
        server = subprocess.Popen(
            [sys.executable, "-m", "langgraph_cli", "dev", "--no-browser", "--no-reload", "--port", str(port)],
            cwd=ROOT,
            env={**os.environ, **endpoints, "LANGGRAPH_CLI_NO_ANALYTICS": "1"},
            stdout=written,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_up(server, f"{url}/ok", log)
        yield get_sync_client(url=url, timeout=120)
    finally:
        server.terminate()
        server.wait(timeout=60)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_up(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    for _ in range(600):
        assert server.poll() is None, log.read_text()
        try:
            if httpx.get(url).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.5)
    raise AssertionError(log.read_text())


def assistant(studio: SyncLangGraphClient) -> str:
    return str(studio.assistants.search(graph_id="mai")[0]["assistant_id"])


def test_a_run_over_http_answers_a_question_about_a_picture(studio: SyncLangGraphClient) -> None:
    result: Any = studio.runs.wait(None, "mai", input=QUESTION)
    assert result["answer"].isdigit()
    assert result["route"] in ("agreement", "reasoned_agreement", "transfer")
    assert result["degraded"] is None
    assert {step["node"] for step in result["steps"]} >= {"small_agent_short", "large_agent_short"}


def test_a_conversation_over_http_gets_the_answer_as_a_message(studio: SyncLangGraphClient) -> None:
    image = {"type": "image", "base64": PICTURE.partition(",")[2], "mime_type": "image/png"}
    asked = {"role": "user", "content": [image, {"type": "text", "text": QUESTION["question"]}]}
    result: Any = studio.runs.wait(None, "mai", input={"messages": [asked]})
    assert [message["type"] for message in result["messages"]] == ["human", "ai"]
    assert result["messages"][-1]["content"] == result["answer"]


def test_a_thread_keeps_the_picture_once(studio: SyncLangGraphClient) -> None:
    thread = studio.threads.create()["thread_id"]
    studio.runs.wait(thread, "mai", input=QUESTION)
    values: Any = studio.threads.get_state(thread)["values"]
    assert values["images"] == [PICTURE]
    assert str(values).count(PICTURE) == 1


def test_nodes_are_streamed_over_http(studio: SyncLangGraphClient) -> None:
    parts = studio.runs.stream(None, "mai", input=QUESTION, stream_mode="updates")
    nodes = [node for part in parts if part.event == "updates" for node in part.data]
    assert set(nodes[:2]) == {"small_agent_short", "large_agent_short"}
    assert nodes[2] == "verifier_short"


@pytest.mark.parametrize(
    ("given", "context", "said"),
    [
        ({"images": [PICTURE]}, None, "question"),
        ({"question": "How many?"}, None, "images"),
        ({"question": "How many?", "images": ["data:image/png;base64,AAAA"]}, None, "images[0]"),
        ({"question": "How many?", "images": ["/etc/hostname"]}, None, "local_files"),
        ({"question": "How many?", "images": ["http://127.0.0.1/a.png"]}, None, "images[0]"),
        (QUESTION, {"temperature": 9}, "temperature"),
    ],
)
def test_bad_input_comes_back_as_one_clear_error(
    studio: SyncLangGraphClient, given: Any, context: Any, said: str
) -> None:
    result: Any = studio.runs.wait(None, "mai", input=given, context=context, raise_error=False)
    error = result["__error__"]
    assert error["error"] in ("InputError", "ConfigError")
    assert said in error["message"]


def test_the_input_output_and_context_schemas_over_http_say_what_each_field_is(studio: SyncLangGraphClient) -> None:
    schemas: Any = studio.assistants.get_schemas(assistant(studio))
    for schema in ("input_schema", "context_schema"):
        for name, field in schemas[schema]["properties"].items():
            assert field["title"], (schema, name)
            assert field["description"], (schema, name)
    assert schemas["input_schema"]["properties"].keys() >= {"question", "images", "options", "metric", "messages"}
    assert schemas["output_schema"]["properties"].keys() >= {"answer", "route", "confidence", "steps", "degraded"}
    temperature = schemas["context_schema"]["properties"]["temperature"]
    assert (temperature["minimum"], temperature["maximum"], temperature["default"]) == (0, 2, 0)


def test_the_drawing_over_http_has_the_nodes_and_labels_of_the_method(studio: SyncLangGraphClient) -> None:
    drawing: Any = studio.assistants.get_graph(assistant(studio))
    nodes = {node["id"] for node in drawing["nodes"]}
    assert nodes >= {"small_agent_short", "large_agent_short", "verifier_short", "small_agent_think", "transfer"}
    labels = {edge.get("data") for edge in drawing["edges"]}
    assert labels >= {"agreement", "differ", "reasoned_agreement", "transfer"}
