"""docs/how-to/register-schemas.md works as printed."""

from __future__ import annotations

import re
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.registry.security import Operation
from ottla.testing.ports import ReservedPorts
from tests.shell import ROOT, Shell, follow, need_installed_commands, sessions, wait_until

PAGE = ROOT / "docs" / "how-to" / "register-schemas.md"


def test_the_sessions_go_as_they_are_printed(tmp_path: Path) -> None:
    need_installed_commands()
    reserved = ReservedPorts(2)
    broker, registry = map(str, reserved.numbers)
    shell = Shell(tmp_path, {"9092": broker, "8081": registry})
    shell.environment["OTTLA_SCHEMA_REGISTRY_URL"] = f"http://localhost:{registry}"
    started = shell.start("ottla start --listen 127.0.0.1:9092 --registry 127.0.0.1:8081", tmp_path / "out")
    try:
        wait_until(lambda: "Registry" in (tmp_path / "out").read_text())
        wait_until(lambda: _answers(f"http://127.0.0.1:{registry}/subjects"))
        steps = sessions(PAGE)
        assert len(steps) > 15
        follow(shell, steps)
        started.terminate()
        assert started.wait(30) == 0
        assert "Stopped cleanly." in (tmp_path / "out").read_text()
    finally:
        with suppress(ProcessLookupError):
            started.kill()
        started.wait()


def _answers(url: str) -> bool:
    with suppress(OSError), urllib.request.urlopen(url, timeout=5):
        return True
    return False


def test_the_python_runs_as_it_is_printed() -> None:
    pytest.importorskip("confluent_kafka.schema_registry.avro", exc_type=ImportError)
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    exec(code, {})


def test_operations_that_the_page_names_exist() -> None:
    assert set(re.findall(r"SUBJECT_\w+", PAGE.read_text())) <= set(Operation.__members__)
