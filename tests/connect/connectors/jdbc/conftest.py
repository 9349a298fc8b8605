from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.connect.connectors.jdbc.databases import SqliteDatabase


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path / "test.db")
    return request.getfixturevalue(request.param)
