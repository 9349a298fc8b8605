from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.spark.pipelines.loading import default_name, load
from ottla.spark.pipelines.query_progress import QueryProgress
from ottla.spark.pipelines.state import (
    Phase,
    PipelineError,
    Pipelines,
    PipelineState,
    check_name,
    process_started,
)


@pytest.fixture
def pipelines(tmp_path: Path) -> Pipelines:
    return Pipelines(tmp_path / "state")


def running(name: str, pid: int, started: int | None = None) -> PipelineState:
    return PipelineState(
        name=name,
        pid=pid,
        pid_started=started if started is not None else process_started(pid) or 0,
        file="/pipelines/trending.py",
        master="local[2]",
        bootstrap_servers="localhost:9092",
        checkpoints="/checkpoints/trending",
        log="/state/trending.log",
        started_at=time.time(),
        phase=Phase.RUNNING,
        queries=[QueryProgress("counts", True, batch=3, lag=0)],
    )


def write(pipelines: Pipelines, state: PipelineState) -> None:
    with pipelines.claim(state.name):
        pipelines.write(state)


@contextlib.contextmanager
def process(code: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            yield child
        finally:
            child.kill()


SLEEPER = "print(flush=True); import time; time.sleep(60)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEPER}"


def test_what_is_written_is_read_again(pipelines: Pipelines) -> None:
    state = running("trending", os.getpid())
    write(pipelines, state)
    assert pipelines.get("trending") == state
    assert pipelines.all() == [state]


def test_a_name_belongs_to_one_process_at_a_time(pipelines: Pipelines) -> None:
    with pipelines.claim("trending"):
        pipelines.write(running("trending", os.getpid()))
        with pytest.raises(PipelineError, match=f"'trending' already runs as process {os.getpid()}"):
            pipelines.claim("trending").__enter__()
        with pipelines.claim("another"):
            pass
    with pipelines.claim("trending"):
        pass


def test_a_pipeline_whose_process_is_gone_is_lost(pipelines: Pipelines) -> None:
    with process(SLEEPER) as child:
        write(pipelines, running("trending", child.pid))
        assert pipelines.get("trending").phase == Phase.RUNNING
    state = pipelines.get("trending")
    assert (state.phase, state.is_alive) == (Phase.LOST, False)
    assert "ended without a word" in (state.error or "")


def test_a_process_that_got_the_number_of_another_is_left_alone(pipelines: Pipelines) -> None:
    with process(SLEEPER) as child:
        write(pipelines, running("trending", child.pid, started=1))
        with pytest.raises(PipelineError, match=r"'trending' is not running: it is lost"):
            pipelines.stop("trending", 1)
        assert child.poll() is None


def test_stop_waits_until_the_process_has_ended(pipelines: Pipelines) -> None:
    with process(SLEEPER) as child:
        write(pipelines, running("trending", child.pid))
        pipelines.stop("trending", 20)
        assert child.wait() == -signal.SIGTERM


def test_stop_does_not_wait_for_ever(pipelines: Pipelines) -> None:
    with process(STUBBORN) as child:
        write(pipelines, running("trending", child.pid))
        with pytest.raises(PipelineError, match=f"has not within 0.2 s: process {child.pid} still runs"):
            pipelines.stop("trending", 0.2)


def test_names_that_are_not_known_or_cannot_be(pipelines: Pipelines) -> None:
    with pytest.raises(PipelineError, match=r"'trending'\. None was ever run here"):
        pipelines.get("trending")
    write(pipelines, running("orders", os.getpid()))
    with pytest.raises(PipelineError, match="There is: orders"):
        pipelines.get("trending")
    for name in ("", "../x", "a b", ".hidden"):
        with pytest.raises(PipelineError, match="cannot be the name of a pipeline"):
            check_name(name)


def test_a_file_that_is_no_state_is_named(pipelines: Pipelines) -> None:
    write(pipelines, running("trending", os.getpid()))
    file = pipelines.root / "pipelines" / "trending.json"
    file.write_text("{}")
    with pytest.raises(PipelineError, match=r"trending.json is not a state of a pipeline: remove it"):
        pipelines.get("trending")


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="OTTLA_STATE_DIR names another place"):
        Pipelines(tmp_path / "file").claim("trending").__enter__()


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("missing.py", None, "There is no file"),
        ("trending.txt", "", "must end with .py or .sql"),
        ("trending.py", "def other(spark): ...", "has no function pipeline"),
        ("trending.py", "def pipeline(spark:\n", "line 1"),
    ],
)
def test_files_that_are_no_pipelines_are_refused_before_spark_starts(
    tmp_path: Path, file: str, text: str | None, message: str
) -> None:
    if text is not None:
        (tmp_path / file).write_text(text)
    with pytest.raises(PipelineError, match=message):
        load(tmp_path / file)


def test_a_pipeline_is_called_like_its_file_or_its_folder() -> None:
    assert default_name(Path("jobs/trending.sql")) == "trending"
    assert default_name(Path("examples/tweets/pipeline.py")) == "tweets"
