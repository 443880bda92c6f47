"""`import mai_graph` is light: it costs an application nothing until a name is used."""

import subprocess
import sys

import pytest

import mai_graph

HEAVY = {"torch", "vllm", "mai_servers", "transformers"}


@pytest.mark.parametrize("used", ["", "; mai_graph.create_mai", "; import mai_graph.images, mai_graph.vllm"])
def test_neither_torch_nor_vllm_nor_the_servers_are_imported(used: str) -> None:
    code = f"import sys, mai_graph{used}; print(*{HEAVY}.intersection(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == ""


def test_nothing_slow_is_imported_before_it_is_used() -> None:
    code = (
        "import sys, mai_graph; print(*[name for name in ('langgraph', 'openai', 'pydantic') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == ""


def test_every_public_name_is_there_and_others_are_not() -> None:
    assert set(mai_graph.__all__) <= set(dir(mai_graph))
    for name in mai_graph.__all__:
        assert getattr(mai_graph, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mai_graph.nothing
