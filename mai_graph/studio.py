"""The graph as ``langgraph dev`` and LangGraph Platform load it (langgraph.json); `Settings` says where the models are.

Runs come over the network here, so paths and private URLs as pictures are off unless the environment allows them.
"""

from mai_graph.config import Settings
from mai_graph.graph import create_mai

_settings = Settings()

graph = create_mai(
    _settings.small,
    _settings.large,
    local_files=_settings.local_files,
    allow_private_urls=_settings.allow_private_urls,
)
