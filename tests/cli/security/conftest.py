from __future__ import annotations

import pytest

from tests.cli.conftest import Ottla


@pytest.fixture(scope="session")
def new_ottla():
    """The command with its own environment."""

    def make(**environment: str) -> Ottla:
        ottla = Ottla()
        ottla.environment |= environment
        return ottla

    return make
