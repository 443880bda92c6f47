"""The README's Python, copied out of it and run on the two real servers."""

import base64
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Servers

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
BLOCKS = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def run(code: str, servers: Servers) -> dict[str, Any]:
    """What is defined after the code ran, with the addresses of the test's servers in place of the usual ones."""
    for usual, actual in (
        ('("http://127.0.0.1:8101/v1", "small")', (servers.small_url, servers.small_model)),
        ('("http://127.0.0.1:8102/v1", "large")', (servers.large_url, servers.large_model)),
    ):
        assert usual in code
        code = code.replace(usual, repr(actual))
    defined: dict[str, Any] = {}
    exec(code, defined)
    return defined


def test_the_ten_lines_of_python_print_an_answer_and_its_steps(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert len([line for line in BLOCKS[0].splitlines() if line]) <= 10
    result = run(BLOCKS[0], servers)["result"]
    first, *steps = capsys.readouterr().out.splitlines()
    assert first == f"{result['answer']} by {result['route']}"
    assert [step.split()[0] for step in steps] == [step["node"] for step in result["steps"]]


def test_the_chat_graph_and_the_chain_of_the_readme_answer(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    defined = run("\n".join(BLOCKS), servers)
    picture, question = Path("examples/shapes.png"), "Is there a red circle?"
    answer = defined["chain"].invoke({"question": question, "images": [picture]})
    image = {"type": "image", "base64": base64.b64encode(picture.read_bytes()).decode(), "mime_type": "image/png"}
    asked = {"role": "user", "content": [image, {"type": "text", "text": question}]}
    assert answer
    assert defined["chat"].invoke({"messages": [asked]})["messages"][-1].content == answer
