"""The demo's choices and tables, without vLLM; the whole of it runs in tests/servers/test_demo.py."""

from pathlib import Path
from typing import Any, cast

import pytest
from pytest_httpserver import HTTPServer
from rich.console import Console

from mai_graph import Endpoint
from mai_graph.demo import Asked, choose, run
from mai_graph.state import Output
from mai_servers.tiny.scenes import make_question
from tests.openai_server import FakeServer


def asked(seed: int, route: str) -> Asked:
    output = cast(Output, {"route": route, "answer": "", "steps": []})
    return Asked(make_question(seed), Path(f"{seed}.png"), output, 1.0, None, 1.0)


A, R, T = "agreement", "reasoned_agreement", "transfer"


@pytest.mark.parametrize(
    ("routes", "count", "chosen"),
    [
        pytest.param([A, A, A, R, T], 3, [0, 3, 4], id="one of each, in the order asked"),
        pytest.param([A, A, A, A, R, T], 5, [0, 1, 2, 4, 5], id="filled up with what there is more of"),
        pytest.param([A, R], 12, [0, 1], id="fewer than asked for"),
        pytest.param([A, A, "without_large"], 2, [0, 2], id="a route in which something failed is shown"),
        pytest.param([], 12, [], id="none"),
    ],
)
def test_the_questions_shown_take_every_route_there_was(routes: list[str], count: int, chosen: list[int]) -> None:
    all_asked = [asked(seed, route) for seed, route in enumerate(routes)]
    assert choose(all_asked, count) == [all_asked[place] for place in chosen]


def test_pictures_are_saved_and_a_route_not_taken_is_said(httpserver: HTTPServer, tmp_path: Path) -> None:
    def says(answer: str) -> Any:
        reasoning = f"Answer: {answer}"
        return {"simple": answer, "think": reasoning, "answer": answer, "transfer": answer}

    small = FakeServer.on(httpserver, "small", says("never"))
    large = FakeServer.on(httpserver, "large", says("ever"))
    console = Console(record=True, width=200)
    ends = [Endpoint(url=server.url, model=server.model) for server in (small, large)]
    folder = tmp_path / "new" / "pictures"

    all_taken = run(*ends, 3, folder, console)

    shown = console.export_text()
    assert not all_taken
    assert "Not taken in 3 questions: agreement, reasoned_agreement." in shown
    assert sorted(path.name for path in folder.iterdir()) == ["scene-00.png", "scene-01.png", "scene-02.png"]
    for said in (make_question(0).question.split()[0], "never", "ever", "speed-up"):
        assert said in shown
    # The warm-up and each question: a short answer, one after the transfer, and the large model's own reasoning.
    assert len(large.requests) == 3 * (1 + 3)
