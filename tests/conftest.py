"""The miniature pair on two real vLLM servers, started once for all tests that need them."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from mai_graph import Endpoint
from mai_servers import launch


class Servers(NamedTuple):
    """Where the two servers answer."""

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


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Both servers on free ports, stopped at the end of the session."""
    with launch.serve(launch.load_config("tiny-cpu").on_free_ports()) as pair:
        yield Servers(pair.small.url, pair.small.model, pair.large.url, pair.large.model)
