"""Where the owner's agents come in, and what the owner is told about it."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs

from roundtable.cli.server import public_listener
from roundtable.config.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
TLS = {"tls_cert": Path("cert.pem"), "tls_key": Path("key.pem")}


@pytest.mark.spec("HTTP-10")
def test_without_a_setting_it_is_on_this_machine_only_and_nothing_is_said() -> None:
    with capture_logs() as logs:
        listener = public_listener(Settings(), {})
    assert (listener.host, listener.port) == ("127.0.0.1", 8000)
    assert logs == []


@pytest.mark.spec("HTTP-10")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "board.example.org"])  # noqa: S104
def test_another_address_without_tls_is_a_warning_that_names_the_guide(host: str) -> None:
    with capture_logs() as logs:
        assert public_listener(Settings(host=host), {}).host == host
    [warning] = logs
    assert (warning["log_level"], warning["host"]) == ("warning", host)
    assert "docs/DEPLOY.md" in warning["advice"]
    assert "reverse proxy" in (ROOT / "docs" / "DEPLOY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "settings",
    [
        Settings(host="0.0.0.0", **TLS),  # noqa: S104
        Settings(host="127.8.9.10"),
        Settings(host="::1"),
        Settings(host="LOCALHOST"),
    ],
)
def test_with_tls_or_on_this_machine_there_is_no_warning(settings: Settings) -> None:
    with capture_logs() as logs:
        public_listener(settings, {})
    assert logs == []
