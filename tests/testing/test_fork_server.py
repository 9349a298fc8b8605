"""A forked command is a process like any other, with its own streams, environment, directory and exit."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.fork_server import run_forked

UNREACHABLE = ("--bootstrap-server", "127.0.0.1:1")


def test_streams_and_exit_codes_are_its_own() -> None:
    helped = run_forked("kafka-topics", "--help")
    assert (helped.returncode, helped.stderr) == (0, b"")
    assert helped.stdout.startswith(b"usage: kafka-topics")
    refused = run_forked("kafka-topics", "--list")
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert refused.stderr == b"--bootstrap-server must be specified\n"


def test_the_working_directory_is_the_callers_choice(tmp_path: Path) -> None:
    (tmp_path / "here.json").write_text("{")
    args = (*UNREACHABLE, "--execute", "--reassignment-json-file", "here.json")
    unread = b"Unable to read file here.json"
    assert unread in run_forked("kafka-reassign-partitions", *args).stdout
    assert unread not in run_forked("kafka-reassign-partitions", *args, cwd=tmp_path).stdout


def test_the_environment_is_the_callers_choice() -> None:
    environment = {**os.environ, "OTTLA_BOOTSTRAP_SERVER": "127.0.0.1:1"}
    refused = run_forked("ottla", "topics", "list", env=environment)
    assert refused.returncode == 1
    assert b"127.0.0.1:1" in refused.stderr


def test_a_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired) as late:
        run_forked("ottla", "start", "--listen", "127.0.0.1:0", "--data", tmp_path, timeout=0.5)
    assert late.value.timeout == 0.5
