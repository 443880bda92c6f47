"""MAI Graph: a small and a large vision-language model answer together (arXiv 2604.04929), as a LangGraph graph.

The names below are loaded when they are first used: LangGraph and the OpenAI client take seconds to import, which a
program that only might ask a question should not pay.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mai_graph.config import Endpoint, MAIConfig, Settings
    from mai_graph.errors import ConfigError, InputError, MAIError, UnavailableError
    from mai_graph.graph import create_mai
    from mai_graph.vllm import ChatVLLM

__all__ = [
    "ChatVLLM",
    "ConfigError",
    "Endpoint",
    "InputError",
    "MAIConfig",
    "MAIError",
    "Settings",
    "UnavailableError",
    "create_mai",
]

_MODULES = {
    "config": ("Endpoint", "MAIConfig", "Settings"),
    "errors": ("ConfigError", "InputError", "MAIError", "UnavailableError"),
    "graph": ("create_mai",),
    "vllm": ("ChatVLLM",),
}
_MODULE_OF = {name: f"{__name__}.{module}" for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:  # PEP 562
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_MODULE_OF[name]), name)
    globals()[name] = value  # the next access doesn't come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
