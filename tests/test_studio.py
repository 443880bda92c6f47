"""What `langgraph dev` loads, apart from running it (tests/servers/test_studio.py)."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from mai_graph import MAIConfig, create_mai
from mai_graph.compiled import MAIGraph
from tests.scripted import PIXEL, Scripted

ROOT = Path(__file__).parents[1]


def loaded() -> MAIGraph:
    """The graph that langgraph.json names, made anew."""
    path, _, variable = json.loads((ROOT / "langgraph.json").read_text())["graphs"]["mai"].partition(":")
    module = importlib.import_module(path.removeprefix("./").removesuffix(".py").replace("/", "."))
    graph = getattr(importlib.reload(module), variable)
    assert isinstance(graph, MAIGraph)
    return graph


def test_served_over_the_network_it_opens_no_files_and_no_private_urls(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (loaded().defaults.local_files, loaded().defaults.allow_private_urls) == (False, False)
    monkeypatch.setenv("MAI_LOCAL_FILES", "true")
    monkeypatch.setenv("MAI_ALLOW_PRIVATE_URLS", "true")
    assert (loaded().defaults.local_files, loaded().defaults.allow_private_urls) == (True, True)


def test_the_form_for_settings_shows_ranges_and_leaves_out_what_a_run_may_not_set() -> None:
    fields = loaded().get_context_jsonschema()["properties"]
    assert set(MAIConfig.model_fields) - set(fields) == {"prompts", "local_files", "allow_private_urls"}
    assert fields["short_max_tokens"]["minimum"] == 1
    assert fields["temperature"]["maximum"] == 2


def test_a_form_sent_back_as_it_was_shown_changes_nothing() -> None:
    graph = create_mai(Scripted(says={"simple": "2"}), Scripted(says={"simple": "2"}), local_files=False, max_images=2)
    shown: dict[str, Any] = graph.get_context_jsonschema()["properties"]
    form = {name: field["default"] for name, field in shown.items()}
    assert form["max_images"] == 2
    assert graph.invoke({"question": "How many?", "images": [PIXEL]}, context=form)["answer"] == "2"
