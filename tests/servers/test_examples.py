"""Each example runs as a user would run it, on the two real servers."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Servers

pytestmark = pytest.mark.servers

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CASES = {
    "plain_invoke.py": r"How many green shapes are there\? \d+ \(route: \w+\)\n(  \w+: \d+ tokens, \d+ ms\n){2,5}",
    "messages_graph.py": r"human: How many green shapes are there\?\nai: \d+\n",
    "lcel_chain.py": r"green: \d+\npurple: \d+\nred: \d+\n",
}


def run(script: str, servers: Servers, *arguments: str) -> str:
    endpoints = {
        "MAI_SMALL__URL": servers.small_url,
        "MAI_SMALL__MODEL": servers.small_model,
        "MAI_LARGE__URL": servers.large_url,
        "MAI_LARGE__MODEL": servers.large_model,
    }
    done = subprocess.run(
        [sys.executable, EXAMPLES / script, *arguments],
        env={**os.environ, **endpoints},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("script", sorted(path.name for path in EXAMPLES.glob("*.py")))
def test_the_example_prints_an_answer(script: str, servers: Servers) -> None:
    assert re.fullmatch(CASES[script], run(script, servers))


def test_an_example_takes_a_picture_and_a_question(servers: Servers) -> None:
    said = run("plain_invoke.py", servers, str(EXAMPLES / "shapes.png"), "Is there a red circle?")
    assert re.match(r"Is there a red circle\? (yes|no) ", said)


@pytest.mark.parametrize("script", sorted(CASES))
def test_an_example_is_short_enough_to_read_at_a_glance(script: str) -> None:
    assert len((EXAMPLES / script).read_text().splitlines()) <= 40
