"""The terminal view of pipelines, rendered without running any."""

from __future__ import annotations

import io
import os

import pytest
from rich.console import Console

from ottla.cli.commands.demo import Trending
from ottla.cli.commands.demo import drawn as drawn_trending
from ottla.cli.commands.pipeline import batch_line, drawn, list_row, progress_printer, total_line
from ottla.spark.pipelines.query_progress import QueryProgress
from ottla.spark.pipelines.state import Phase, PipelineState

QUERY = QueryProgress(
    "trending",
    True,
    batch=7,
    rows_in=1234,
    rows_in_per_second=1234.5,
    rows_out_per_second=None,
    batch_seconds=0.815,
    lag=12,
    state_rows=2000,
    state_bytes=1_500_000,
    rows_total=45_678,
)


def state(phase: Phase, *queries: QueryProgress) -> PipelineState:
    return PipelineState(
        name="tweets",
        pid=os.getpid(),
        pid_started=1,
        file="tweets.py",
        master="local[2]",
        bootstrap_servers="localhost:9092",
        checkpoints="checkpoints/tweets",
        log="tweets.log",
        started_at=0.0,
        phase=phase,
        queries=list(queries),
    )


def text(drawing: object) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(drawing)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_a_query_on_the_terminal() -> None:
    assert "Spark is starting" in text(drawn(state(Phase.STARTING)))
    heading, _, row = (line.rstrip() for line in text(drawn(state(Phase.RUNNING, QUERY))).splitlines())
    assert heading.split() == [
        "query",
        "batch",
        "rows",
        "rows/s",
        "in",
        "rows/s",
        "out",
        "batch",
        "time",
        "lag",
        "state",
        "rows",
        "state",
        "size",
    ]
    assert row.split() == ["trending", "7", "45,678", "1,234", "-", "0.81", "s", "12", "2,000", "1.5", "MB"]


def test_a_query_that_has_ended_shows_its_rows_and_no_rate() -> None:
    _, _, row = (line.rstrip() for line in text(drawn(state(Phase.FINISHED, QUERY.ended()))).splitlines())
    assert row.split() == [
        "trending",
        "(ended)",
        "7",
        "45,678",
        "-",
        "-",
        "0.81",
        "s",
        "12",
        "2,000",
        "1.5",
        "MB",
    ]
    assert total_line("tweets", QUERY.ended()) == "tweets/trending: 45,678 rows processed"


def test_a_query_in_a_log() -> None:
    assert batch_line("tweets", QUERY) == (
        "tweets/trending: batch 7, 1234 rows, 0.81 s, 1,234 rows/s in, - rows/s out, lag 12, state 2,000 rows"
    )


def test_a_log_has_a_line_per_batch_and_none_for_batches_without_rows(
    capsys: pytest.CaptureFixture[str],
) -> None:
    idle = QueryProgress("trending", True, batch=8, rows_in=0)
    with progress_printer() as show:
        for each in (state(Phase.STARTING), state(Phase.RUNNING), *[state(Phase.RUNNING, QUERY)] * 2):
            show(each)
        show(state(Phase.RUNNING, idle))
    assert capsys.readouterr().out.splitlines() == [
        "tweets: Spark is starting…",
        "tweets: running",
        batch_line("tweets", QUERY),
    ]


def test_only_what_runs_has_a_process() -> None:
    assert list_row(state(Phase.RUNNING, QUERY))[:4] == ("tweets", "running", os.getpid(), 1)
    assert list_row(state(Phase.FAILED))[:4] == ("tweets", "failed", None, 0)


class TestTrending:
    @pytest.fixture
    def trending(self) -> Trending:
        return Trending("127.0.0.1:1")

    def add(self, trending: Trending) -> None:
        for minute, hashtag, tweets in (
            ("2026-01-01T12:00:00.000Z", "kafka", 5),
            ("2026-01-01T12:00:00.000Z", "cats", 2),
            ("2026-01-01T12:01:00.000Z", "cats", 1),
            ("2026-01-01T12:01:00.000Z", "cats", 3),
        ):
            trending.add({"minute": minute, "hashtag": hashtag, "tweets": tweets})

    def test_the_newest_minute_comes_first_and_a_count_replaces_the_one_before(
        self, trending: Trending
    ) -> None:
        assert (trending.minute, trending.top()) == (None, [])
        self.add(trending)
        assert trending.top() == [("cats", 3, 2), ("kafka", 0, 5)]
        assert trending.minute is not None
        assert trending.minute.minute == 1
        trending.close()

    def test_it_is_a_table_with_what_the_pipeline_does_below(self, trending: Trending) -> None:
        assert "Spark is starting" in text(drawn_trending(trending, None))
        assert "first tweets" in text(drawn_trending(trending, state(Phase.RUNNING, QUERY)))
        self.add(trending)
        lines = text(drawn_trending(trending, state(Phase.RUNNING, QUERY))).splitlines()
        assert lines[2].split()[:3] == ["#cats", "3", "2"]
        assert lines[3].split() == ["#kafka", "0", "5"]
        assert lines[-1].strip() == "1234.5 tweets/s, batch 7 in 0.8 s, lag 12"
        trending.close()
