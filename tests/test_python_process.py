"""Python programs started by Ottla import nothing from the working directory."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from ottla.cli.commands.demo import Children
from ottla.console.messages.scanning import Query
from ottla.console.messages.search import Job, search
from ottla.console.settings import ClusterSettings
from ottla.helper_process import HelperProcess
from ottla.python_process import add_import_directory, python_command, python_environment
from ottla.testing import Broker

_PLANTED = (
    "resource",
    "json",
    "socket",
    "asyncio",
    "subprocess",
    "ottla",
    "cramjam",
    "click",
    "pyspark",
    "sitecustomize",
)


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory full of traps, and the file to which they write their names."""
    directory, found = tmp_path / "work", tmp_path / "imported"
    directory.mkdir()
    found.touch()
    for name in _PLANTED:
        trap = f"open({str(found)!r}, 'a').write({name!r} + ' ')\nraise ImportError({name!r})\n"
        (directory / f"{name}.py").write_text(trap)
    monkeypatch.chdir(directory)
    return found


def test_the_traps_work(planted: Path) -> None:
    subprocess.run([sys.executable, "-c", "import resource"], capture_output=True)
    assert planted.read_text() == "resource "


def test_a_search_of_the_console_runs_no_planted_module(planted: Path) -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        broker.produce("orders", b"first")
        cluster = ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers})

        async def hits() -> list[str]:
            lines = search(Job(cluster, "orders", {0: (0, 1)}, Query("first"), 10))
            return [next(iter(line)) async for line in lines]

        found = asyncio.run(hits())
        assert (found.count("hit"), found[-1]) == (1, "end")
    assert planted.read_text() == ""


@pytest.mark.parametrize(
    "module",
    [
        "ottla.log.cleaner.worker.main",
        "ottla.monitoring.metrics.otlp_push",
        "ottla.monitoring.audit.broker_tier",
    ],
)
def test_a_helper_of_the_broker_runs_no_planted_module(planted: Path, module: str) -> None:
    async def run() -> None:
        helper = HelperProcess(module)
        await helper.start()
        await helper.end()

    asyncio.run(run())
    assert planted.read_text() == ""


def test_a_child_of_the_demo_runs_no_planted_module(planted: Path, tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        child = children.start("version", "-m", "ottla", "--version")
        child._process.wait(30)
        assert child.output().startswith("ottla, version")
    assert planted.read_text() == ""


def test_neither_does_a_child_of_a_child(planted: Path) -> None:
    program = "import subprocess, sys; subprocess.run([sys.executable, '-m', 'json.tool', '--help'])"
    subprocess.run(python_command("-c", program), env=python_environment(), check=True, capture_output=True)
    assert planted.read_text() == ""


@pytest.mark.slow
def test_the_python_workers_of_spark_run_no_planted_module(planted: Path) -> None:
    program = (
        "from ottla.spark.session import session\n"
        "spark = session('planted', 'local[1]')\n"
        "print('sum', spark.sparkContext.parallelize([1, 2, 3]).map(lambda each: each * 2).sum())\n"
        "spark.stop()\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(python_command("-c", program), env=environment, capture_output=True, text=True)
    assert "sum 12" in done.stdout, done.stderr
    assert planted.read_text() == ""


def test_a_directory_of_pipelines_comes_after_the_standard_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    add_import_directory(tmp_path)
    [library] = [each for each in sys.path if Path(each, "json", "__init__.py").exists()]
    assert sys.path.index(str(tmp_path)) > sys.path.index(library)


def test_every_python_program_is_started_through_one_function() -> None:
    """A command that starts with sys.executable would put the working directory on the path again."""
    root = Path(ottla.__file__).parent
    found = set()
    for file in root.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.List) and node.elts and ast.unparse(node.elts[0]) == "sys.executable":
                safe = len(node.elts) > 1 and ast.unparse(node.elts[1]) in ("'-P'", "'-I'")
                found |= set() if safe else {str(file.relative_to(root))}
    assert found == set()
