"""Fixtures that are shared by all tests."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest


class Servers(NamedTuple):
    """Where the two running vLLM servers with the miniature pair answer."""

    small_url: str
    small_model: str
    large_url: str
    large_model: str


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """Both vLLM servers with the miniature pair, started once a session on free ports, stopped at its end."""
    from mai_servers import launch

    with launch.serve(launch.load_config("tiny-cpu").on_free_ports()) as pair:
        yield Servers(
            small_url=pair.small.url,
            small_model=pair.small.model,
            large_url=pair.large.url,
            large_model=pair.large.model,
        )
