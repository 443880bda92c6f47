"""The command line: ``mai-graph serve``, ``doctor``, ``ask`` and ``demo``.

Exit codes: 0 done; 1 an expected error, in one line on stderr; 2 the command was typed wrongly; 3 `ask` has an answer,
but a degraded one; 130 Ctrl-C. What a program reads (`ask`'s answer, all JSON) is on stdout, all else on stderr.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Literal

import typer
from pydantic import ValidationError
from pydantic_settings import SettingsError
from rich.console import Console
from rich.text import Text
from typer.core import TyperGroup

from mai_graph.config import Endpoint, MAIConfig, Metric, Settings
from mai_graph.errors import ConfigError, InputError, MAIError

DEGRADED = 3
"""Exit code of `ask` when the answer is less than the method promises."""

_STDIN = "-"
_out, _err = Console(), Console(stderr=True)


class _Commands(TyperGroup):
    """The commands, with expected errors shown in one line."""

    def invoke(self, ctx: Any) -> Any:
        # The commands say themselves, once, what the package's log says too.
        logging.getLogger("mai_graph").addHandler(logging.NullHandler())
        try:
            return super().invoke(ctx)
        except MAIError as error:
            problem, _, details = str(error).partition("\n")
            _say(f"Error: {problem}", "bold red")
            if details:
                _say(details.strip())
            raise typer.Exit(1) from None


app = typer.Typer(
    cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich"
)


def _setting(name: str, *flags: str) -> Any:
    """An option that sets one field of `MAIConfig`, which has the only copy of its description and default."""
    field = MAIConfig.model_fields[name]
    help = f"{field.description} \\[default: {field.default}]" if field.default is not None else field.description
    return typer.Option(*flags, help=help, show_default=False, rich_help_panel="How it is answered")


def _endpoint(role: str, field: str) -> Any:
    default = getattr(Settings.model_fields[role].default, field)
    what = {"url": "Base URL, ending in /v1,", "model": "Served name"}[field]
    help = f"{what} of the {role} model \\[default: $MAI_{role.upper()}__{field.upper()}, else {default}]"
    return typer.Option(f"--{role}-{field}", help=help, show_default=False, rich_help_panel="Where the models are")


SmallUrl = Annotated[str | None, _endpoint("small", "url")]
SmallModel = Annotated[str | None, _endpoint("small", "model")]
LargeUrl = Annotated[str | None, _endpoint("large", "url")]
LargeModel = Annotated[str | None, _endpoint("large", "model")]


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"mai-graph {version('mai-graph')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """A small and a large vision-language model answer together (Multi-Agent Inference, arXiv 2604.04929)."""


@app.command()
def serve(
    only: Annotated[
        Literal["small", "large"] | None, typer.Argument(help="Start this server only; else both.", show_default=False)
    ] = None,
    config: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Which pair of models: a name of servers/configs, or a YAML file.")
    ] = "tiny-cpu",
) -> None:
    """Start the small and the large vLLM server, and stop both on Ctrl-C.

    Without arguments: the miniature pair, which runs on any CPU. Needs mai-servers and vLLM.
    """
    with _launcher() as launch:
        launch.run(launch.load_config(config), only)


@app.command()
def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")] = False,
    small_url: SmallUrl = None,
    small_model: SmallModel = None,
    large_url: LargeUrl = None,
    large_model: LargeModel = None,
) -> None:
    """Check the environment and both servers, and say how to mend what is off; then the exit code is 1."""
    from mai_graph.doctor import diagnose

    diagnosis = diagnose(_settings(small_url, small_model, large_url, large_model))
    if as_json:
        typer.echo(diagnosis.model_dump_json(indent=2))
    else:
        _out.print(diagnosis.table())
    raise typer.Exit(0 if diagnosis.ok else 1)


@app.command()
def ask(
    images: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE...",
            default_factory=list,
            help="Pictures: each a path, a URL, or - for stdin.",
            show_default=False,
        ),
    ],
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What to find out about them; comes last.")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", help="Text of one option of a multiple-choice question; repeat for each."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON, and nothing else.")] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Show every model call with its tokens and times.")] = False,
    metric: Annotated[Metric | None, _setting("metric", "--metric")] = None,
    two_stage: Annotated[bool | None, _setting("two_stage", "--two-stage/--one-stage")] = None,
    anls_threshold: Annotated[float | None, _setting("anls_threshold", "--anls-threshold")] = None,
    short_max_tokens: Annotated[int | None, _setting("short_max_tokens", "--short-max-tokens")] = None,
    think_max_tokens: Annotated[int | None, _setting("think_max_tokens", "--think-max-tokens")] = None,
    temperature: Annotated[float | None, _setting("temperature", "--temperature")] = None,
    prompts: Annotated[str | None, _setting("prompts", "--prompts")] = None,
    max_images: Annotated[int | None, _setting("max_images", "--max-images")] = None,
    allow_private_urls: Annotated[bool | None, _setting("allow_private_urls", "--allow-private-urls")] = None,
    small_url: SmallUrl = None,
    small_model: SmallModel = None,
    large_url: LargeUrl = None,
    large_model: LargeModel = None,
) -> None:
    """Ask a question about one or more pictures; the question comes last.

    Prints the answer on stdout and how it came about on stderr. Exit code 3: the answer is degraded (a model was down,
    for example); stderr and the field "degraded" say why.
    """
    if trace and as_json:
        raise typer.BadParameter("the JSON holds the steps already", param_hint="--trace")
    settings = _settings(small_url, small_model, large_url, large_model)
    given = {
        "two_stage": two_stage,
        "anls_threshold": anls_threshold,
        "short_max_tokens": short_max_tokens,
        "think_max_tokens": think_max_tokens,
        "temperature": temperature,
        "prompts": prompts,
        "max_images": max_images,
        "allow_private_urls": allow_private_urls,
    }
    options: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    _refuse_misplaced_picture(question)
    sources = _read_stdin(images)

    from mai_graph.graph import create_mai
    from mai_graph.state import Input
    from mai_graph.trace import outcome_line, steps_table

    graph = create_mai(settings.small, settings.large, **options)
    asked: Input = {"question": question, "images": sources, "options": option, "metric": metric}
    # Asynchronous, because then Ctrl-C ends the calls that are under way instead of waiting for them.
    result: Any = asyncio.run(graph.ainvoke(asked))
    if as_json:
        typer.echo(json.dumps(result, indent=2))
    else:
        typer.echo(result["answer"])
        _err.print(outcome_line(result))
        if trace:
            _err.print(steps_table(result["steps"]))
    if result["degraded"]:
        _say(f"Warning: {result['degraded']}", "yellow")
        raise typer.Exit(DEGRADED)


@app.command()
def demo(
    questions: Annotated[int, typer.Option(min=1, help="How many held-out questions to ask.")] = 60,
    output: Annotated[Path, typer.Option(help="Folder for the pictures.", file_okay=False)] = Path("demo-output"),
    running: Annotated[
        bool, typer.Option("--running", help="Ask the servers that `mai-graph serve` started, instead of own ones.")
    ] = False,
) -> None:
    """Start the miniature pair, ask it about drawn scenes, show the routes and the speed-up, and stop it.

    Exit code 1: not every route was taken. Needs mai-servers and vLLM.
    """
    console = (
        _out if _out.is_terminal else Console(width=160)
    )  # a pipe is taken to be 80 wide, too narrow for the table
    with _launcher() as launch:
        from mai_graph.demo import run

        if running:
            settings = _settings()
            all_taken = run(settings.small, settings.large, questions, output, console)
        else:
            with launch.serve(launch.load_config("tiny-cpu").on_free_ports()) as pair:
                small, large = (Endpoint(url=end.url, model=end.model) for end in (pair.small, pair.large))
                all_taken = run(small, large, questions, output, console)
    raise typer.Exit(0 if all_taken else 1)


@contextmanager
def _launcher() -> Iterator[ModuleType]:
    """`mai_servers.launch`, whose errors, or absence, become errors of this package."""
    try:
        from mai_servers import launch
    except ModuleNotFoundError as missing:
        if missing.name != "mai_servers":
            raise
        raise ConfigError(
            "mai-servers",
            "this command starts servers, and mai-servers isn't installed in this environment",
            "Run `make install` in a checkout, or pip install 'mai-servers[cpu]' (with an NVIDIA GPU: [cuda]).",
        ) from None
    try:
        yield launch
    except launch.LaunchError as error:
        raise MAIError(str(error)) from error


def _settings(
    small_url: str | None = None,
    small_model: str | None = None,
    large_url: str | None = None,
    large_model: str | None = None,
) -> Settings:
    """The settings, with what was typed on top of the environment's."""
    typed = {"small": {"url": small_url, "model": small_model}, "large": {"url": large_url, "model": large_model}}
    given: dict[str, Any] = {
        role: {field: value for field, value in fields.items() if value is not None} for role, fields in typed.items()
    }
    try:
        return Settings(**given)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        role, *rest = (str(part) for part in first["loc"])
        flag, variable = "-".join([role, *rest]), "__".join(["MAI_" + role, *rest]).upper()
        remedy = f"It comes from --{flag} or {variable}." if rest else f"It comes from {variable}."
        raise ConfigError(
            ".".join([role, *rest]), f"{first['input']!r} is not allowed: {first['msg']}", remedy
        ) from None
    except SettingsError as error:
        raise ConfigError(
            "settings", str(error), "Correct the MAI_... variables, in the environment or .env."
        ) from None


def _refuse_misplaced_picture(question: str) -> None:
    if os.path.isfile(question):  # noqa: PTH113  # Path.is_file raises for a question longer than a file's name can be
        raise InputError(
            "question", f"{question!r} is a file", 'The question comes last: mai-graph ask picture.png "What is it?"'
        )


def _read_stdin(images: list[str]) -> list[str | bytes]:
    """The pictures, with - replaced by the bytes on stdin."""
    if _STDIN not in images:
        return list(images)
    field = f"images[{images.index(_STDIN)}]"
    if images.count(_STDIN) > 1:
        raise InputError(field, "- (stdin) is given more than once", "stdin holds one picture.")
    if sys.stdin.isatty():
        raise InputError(field, "- reads stdin, which is the keyboard here", "mai-graph ask - QUESTION < picture.png")
    from mai_graph.images import ImageLimits

    picture = sys.stdin.buffer.read(ImageLimits().max_bytes + 1)  # one more is refused as too large, without the rest
    return [picture if source == _STDIN else source for source in images]


def _say(text: str, style: str = "") -> None:
    _err.print(Text(text, style=style), soft_wrap=True)
