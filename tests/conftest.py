"""The miniature pair on two real vLLM servers, started once for all tests that need them."""

import socket
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from mai_graph import Endpoint
from mai_servers import launch
from mai_servers.pair import PairConfig


class Servers(NamedTuple):
    """Where the two servers are."""

    small_url: str
    small_model: str
    large_url: str
    large_model: str

    @property
    def small(self) -> Endpoint:
        return Endpoint(url=self.small_url, model=self.small_model)

    @property
    def large(self) -> Endpoint:
        return Endpoint(url=self.large_url, model=self.large_model)


def free_port() -> int:
    """A port that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Both servers, stopped at the end of the session."""
    with launch.serve(on_free_ports(launch.load_config("tiny-cpu"))) as pair:
        yield Servers(pair.small.url, pair.small.model, pair.large.url, pair.large.model)


def on_free_ports(config: PairConfig) -> PairConfig:
    """The same pair on ports that nothing listens at."""
    small, large = (server.model_copy(update={"port": free_port()}) for server in (config.small, config.large))
    return config.model_copy(update={"small": small, "large": large})
