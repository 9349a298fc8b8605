"""The tools that `make test-deploy` gets."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def tools() -> Path:
    return Path(os.environ.get("OTTLA_DEPLOY_TOOLS", ROOT / ".deploy-tools")).absolute()


@pytest.fixture(scope="session")
def tool(tools: Path) -> Callable[[str], str]:
    """Return the path of a tool, or skip the test without it."""

    def find(name: str) -> str:
        found = shutil.which(name, path=f"{tools / 'bin'}:{os.environ['PATH']}")
        if found is None:
            pytest.skip(f"{name} is not installed: make test-deploy gets it")
        return found

    return find
