"""Catalogs of Iceberg as an owner has them: in pyiceberg's configuration, by a name."""

from __future__ import annotations

import pytest
from pyiceberg.utils.config import Config


def configured(monkeypatch: pytest.MonkeyPatch, name: str, **settings: str) -> None:
    """Let pyiceberg's configuration have a catalog, until the test ends."""
    for key, value in settings.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__{key.upper()}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which it reads when it is imported
