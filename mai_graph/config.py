"""What a user may set: the two model endpoints, and how one question is answered.

`Endpoint` says where a model is; `MAIConfig` is the LangGraph context of the graph, so every field of it shows up in
LangGraph Studio's form and can be changed for one run: ``graph.invoke(..., context={"two_stage": False})``.
"""

from typing import Annotated, Any, Literal

from pydantic import AnyHttpUrl, BaseModel, ConfigDict, Field, SecretStr, TypeAdapter, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from mai_graph.errors import ConfigError

Metric = Literal["em", "anls", "number", "choice", "relaxed"]


class Endpoint(BaseModel):
    """One model behind an OpenAI-compatible chat API, such as a vLLM server."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str = Field(description="Base URL of the API, ending in /v1.", examples=["http://127.0.0.1:8101/v1"])
    model: str = Field(min_length=1, description="Model name as the server knows it (vLLM: --served-model-name).")
    api_key: SecretStr | None = Field(default=None, description="Sent as a bearer token; vLLM: --api-key.")
    timeout: float = Field(default=60, gt=0, description="Seconds to wait for the server's next byte.")
    max_retries: int = Field(
        default=2, ge=0, le=10, description="Further tries after a connection error, a 429 or a 5xx."
    )

    @field_validator("url")
    @classmethod
    def _is_http_url(cls, url: str) -> str:
        TypeAdapter(AnyHttpUrl).validate_python(url)
        return url.rstrip("/")


class Settings(BaseSettings):
    """Where the two models are: what ``mai-graph serve`` starts, unless the environment or ``.env`` says otherwise.

    ``MAI_SMALL__URL``, ``MAI_SMALL__MODEL``, ``MAI_SMALL__API_KEY``, ``MAI_LARGE__URL``, ... override single fields;
    ``MAI_LOCAL_FILES`` and ``MAI_ALLOW_PRIVATE_URLS`` say what the graph served by ``langgraph dev`` may open.
    """

    model_config = SettingsConfigDict(
        env_prefix="MAI_",
        env_nested_delimiter="__",
        env_file=".env",
        extra="ignore",
        nested_model_default_partial_update=True,
    )

    small: Endpoint = Endpoint(url="http://127.0.0.1:8101/v1", model="small")
    large: Endpoint = Endpoint(url="http://127.0.0.1:8102/v1", model="large")
    local_files: bool = False
    allow_private_urls: bool = False


class MAIConfig(BaseModel):
    """How a question is answered; the context of the graph.

    Raises:
        ConfigError: From `merged`, when a field is unknown or its value is out of range.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, title="MAI Graph")

    two_stage: bool = Field(
        default=True,
        title="Two-stage",
        description="The small model reads its own reasoning and answers again (S2). Off: its answer is read from the "
        "reasoning's last line, which saves one short call (the paper's simplification).",
    )
    metric: Metric | None = Field(
        default=None,
        title="Verifier metric",
        description="How two answers are compared when the question doesn't say: em (exact match after "
        "normalisation), anls, number, choice (option letters), relaxed (numbers within 5 %). Empty: guessed from the "
        "question's form and shown in the result.",
    )
    anls_threshold: float = Field(
        default=0.9,
        gt=0,
        le=1,
        title="ANLS threshold τ",
        description="Two answers agree under anls when their similarity is at least this.",
    )
    short_max_tokens: int = Field(
        default=32, ge=1, le=1024, title="Short answer limit", description="Most tokens of a short answer."
    )
    think_max_tokens: int = Field(
        default=1024,
        ge=1,
        le=131072,
        title="Reasoning limit",
        description="Most tokens of the small model's reasoning.",
    )
    temperature: float = Field(
        default=0, ge=0, le=2, title="Temperature", description="Of every call; 0 is greedy and reproducible."
    )
    prompts: str = Field(
        default="default",
        min_length=1,
        title="Prompt set",
        description="A named set of prompts/, or a folder holding a prompts.toml of your own.",
    )
    max_images: int = Field(
        default=4,
        ge=1,
        le=1000,
        title="Most pictures",
        description="Pictures a question may have; the servers must take as many (vLLM: --limit-mm-per-prompt).",
    )
    local_files: bool = Field(
        default=True,
        title="Local files",
        description="Whether a picture may be a path on the machine the graph runs on.",
    )
    allow_private_urls: bool = Field(
        default=False,
        title="Private URLs",
        description="Whether a picture's URL may point into the private network or this machine.",
    )

    def merged(self, context: "MAIConfig | dict[str, Any] | None") -> "MAIConfig":
        """These settings, with those of one run on top.

        A run may not widen what the graph's maker allowed to be opened: ``prompts`` given as a folder, ``local_files``
        and ``allow_private_urls`` come from whoever made the graph, since a run may come over the network.
        """
        if context is None:
            return self
        given = context if isinstance(context, dict) else context.model_dump(exclude_unset=True)
        merged = parse_config(self.model_dump() | given)
        for field in _MAKERS_OWN:
            if getattr(merged, field) != getattr(self, field):
                raise ConfigError(
                    field,
                    f"{getattr(merged, field)!r} can't be set for one run (it is {getattr(self, field)!r})",
                    f"Set it where the graph is made: create_mai(..., {field}=...).",
                )
        return merged

    def run_schema(self) -> dict[str, Any]:
        """JSON schema of what one run may change, with these settings as its defaults, for forms."""
        schema, own = MAIConfig.model_json_schema(), self.model_dump(mode="json")
        properties = {
            field: about | {"default": own[field]}
            for field, about in schema["properties"].items()
            if field not in _MAKERS_OWN
        }
        return schema | {"properties": properties}


_MAKERS_OWN: tuple[Annotated[str, "field of MAIConfig"], ...] = ("prompts", "local_files", "allow_private_urls")


def parse_config(values: dict[str, Any]) -> MAIConfig:
    """Make a `MAIConfig` of plain values.

    Raises:
        ConfigError: Naming the field, its value and what is allowed.
    """
    try:
        return MAIConfig.model_validate(values)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        if first["type"] == "extra_forbidden":
            remedy = f"Known settings: {', '.join(MAIConfig.model_fields)}."
            raise ConfigError(field, "there is no such setting", remedy) from None
        remedy = MAIConfig.model_fields[field].description or ""
        raise ConfigError(field, f"{first['input']!r} is not allowed: {first['msg']}", remedy) from None
