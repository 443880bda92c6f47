"""What README and docs say is so: pictures, tables, commands and links are held against the code."""

import re
import shlex
from pathlib import Path
from typing import get_args

import pytest
import typer
from pydantic import BaseModel

from mai_graph import Endpoint, MAIConfig, create_mai
from mai_graph.cli import app
from mai_graph.state import Route
from tests.scripted import Scripted

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "servers/README.md", *sorted(ROOT.glob("docs/**/*.md"))]


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_picture_is_the_graph() -> None:
    (drawing,) = blocks("mermaid")
    drawn = re.findall(r"^ +(\w+)(?:\(\[.*\]\))? --(?: (\w+) --)?> (\w+)", drawing, re.MULTILINE)
    assert len(drawn) == len(drawing.splitlines()) - 1
    ends = {"__start__": "question", "__end__": "answer"}
    edges = create_mai(Scripted(says={}), Scripted(says={})).get_graph().edges
    assert sorted(drawn) == sorted(
        (ends.get(edge.source, edge.source), str(edge.data or ""), ends.get(edge.target, edge.target)) for edge in edges
    )


@pytest.mark.parametrize("model", [MAIConfig, Endpoint])
def test_the_tables_of_settings_are_the_settings(model: type[BaseModel]) -> None:
    for name, field in model.model_fields.items():
        default = "" if field.is_required() else f"`{field.default}`"
        assert f"| `{name}` | {default} | {field.description} |" in README


def test_the_table_of_failures_knows_every_route() -> None:
    drawn = blocks("mermaid")[0]
    assert [route for route in get_args(Route) if f"`{route}`" not in README and route not in drawn] == []


def test_the_table_of_hardware_has_every_configuration() -> None:
    table = README.partition("## What runs where")[2].partition("\n## ")[0]
    named = re.findall(r"^\|[^|]*\| `([\w-]+)`", table, re.MULTILINE)
    assert sorted(named) == sorted(path.stem for path in ROOT.glob("servers/configs/*.yaml"))


def test_every_command_is_named() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    assert [name for name in commands if f"mai-graph {name}" not in README and f"make {name}" not in README] == []


@pytest.mark.parametrize(
    "line",
    [
        line
        for page in PAGES
        if page.is_file()
        for block in blocks("bash", page.read_text())
        for line in block.splitlines()
        if line.startswith("mai-graph ")
    ],
)
def test_every_command_line_can_be_parsed(line: str) -> None:
    _, name, *arguments = shlex.split(line, comments=True)
    typer.main.get_command(app).commands[name].make_context(name, arguments)  # type: ignore[attr-defined]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_commands_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]*)#?[^)]*\)", text):
        assert (page.parent / target).exists(), target
    for anchor in re.findall(r"\]\(#([^)]*)\)", text):
        assert anchor in [heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    for script in re.findall(r"python ([\w/]+\.py)", text):
        assert (ROOT / script).is_file(), script
    for module in re.findall(r"python -m (mai_\w+(?:\.\w+)+)", text):
        assert any((root / f"{module.replace('.', '/')}.py").is_file() for root in (ROOT, ROOT / "servers")), module
    for target in re.findall(r"(?:^|`)make ([a-z][\w-]*)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), target


def test_the_architecture_says_what_each_module_is_for() -> None:
    table = (ROOT / "docs/architecture.md").read_text().partition("## Modules")[2].partition("\n## ")[0]
    modules = {path.stem for path in ROOT.glob("mai_graph/[!_]*.py")}
    assert modules == set(re.findall(r"`(\w+)`", "\n".join(re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE))))


def test_a_decision_is_short() -> None:
    for decision in ROOT.glob("docs/decisions/*.md"):
        assert len(decision.read_text().splitlines()) <= 10, decision.name
