"""A folder of the test's own, with nothing of the caller's settings."""

from __future__ import annotations

import os

import pytest


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ROUNDTABLE_")]:
        monkeypatch.delenv(name)
    return tmp_path
