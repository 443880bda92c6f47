"""MAI Graph: a small and a large vision-language model answer together (arXiv 2604.04929), as a LangGraph graph."""

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
