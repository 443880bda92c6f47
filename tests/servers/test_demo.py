"""`mai-graph demo` on two real vLLM servers with the miniature pair."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from mai_graph.cli import app
from mai_graph.demo import ROUTES
from tests.conftest import Servers

pytestmark = pytest.mark.servers


def test_the_demo_takes_all_three_routes(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for role in ("small", "large"):
        monkeypatch.setenv(f"MAI_{role.upper()}__URL", getattr(servers, f"{role}_url"))
        monkeypatch.setenv(f"MAI_{role.upper()}__MODEL", getattr(servers, f"{role}_model"))
    result = CliRunner().invoke(app, ["demo", "--running", "--output", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert "12 of 60 held-out questions" in result.stdout
    assert all(route in result.stdout for route in ROUTES)
    assert "speed-up" in result.stdout
    assert len(list(tmp_path.glob("scene-*.png"))) == 60


def test_doctor_finds_nothing_off_with_the_miniature_pair(servers: Servers) -> None:
    arguments = ["doctor", "--small-url", servers.small_url, "--large-url", servers.large_url]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.stdout
