"""The Python code in docs/how-to/run-a-cluster.md runs as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.terminals import blocks, commands
from tests.docs.test_commands import serving
from tests.ports import ports_in_a_row
from tests.shell import Shell, need_installed_commands


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(
    "code", blocks("how-to/run-a-cluster.md", "python"), ids=["kill", "faults", "ensemble"]
)
def test_code_runs_as_printed(code: str) -> None:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    exec(code, {})


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_the_commands_run_as_printed(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    need_installed_commands()
    start, *others = [line for block in blocks("how-to/run-a-cluster.md", "sh") for line in commands(block)]
    wanted = blocks("how-to/run-a-cluster.md", "json")[0]
    (tmp_path / "wanted.json").write_text(wanted)
    port = ports_in_a_row(3)
    shell = Shell(tmp_path, {"9092": str(port)})
    shell.environment["OTTLA_BOOTSTRAP_SERVER"] = f"localhost:{port}"
    with serving(shell, f"{start} --listen 127.0.0.1:{port}", "is ready."):
        shell("ottla topics create payments --partitions 1 --replication-factor 1")
        for line in others:
            shell(line)
