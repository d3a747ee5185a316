"""Limits that are exact in a test, however busy the machine is."""

import pytest

from hasten.gateway import account as accounts


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody waits for the exact answer, however busy the machine is."""
    monkeypatch.setattr(accounts, "WRITE_S", 30.0)
