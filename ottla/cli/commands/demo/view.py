"""The hashtag counts of the last minutes, on the terminal."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.client import Client

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ottla.spark.pipelines.state import PipelineState

TOPIC = "trending"

_SHOWN = 10
_BAR = 30

Show = Callable[["Trending", "PipelineState | None"], None]


class Trending:
    """Reads the pipeline's output topic: the count of each hashtag per minute, repeated on every change."""

    def __init__(self, bootstrap_servers: str) -> None:
        from confluent_kafka import OFFSET_BEGINNING, TopicPartition

        self._consumer = Client(bootstrap_servers).consumer(
            {"group.id": "ottla-demo", "enable.auto.commit": False, "allow.auto.create.topics": False}
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        self._counts: dict[datetime, dict[str, int]] = {}

    def close(self) -> None:
        self._consumer.close()

    def read(self, seconds: float) -> None:
        for message in self._consumer.consume(1000, timeout=seconds):
            value = message.value()
            if message.error() is None and value is not None:
                self.add(json.loads(value))

    def add(self, row: dict[str, object]) -> None:
        minute = datetime.fromisoformat(str(row["minute"])).astimezone()
        self._counts.setdefault(minute, {})[str(row["hashtag"])] = int(str(row["tweets"]))

    @property
    def minute(self) -> datetime | None:
        return max(self._counts, default=None)

    def top(self) -> list[tuple[str, int, int]]:
        minutes = sorted(self._counts)[-2:]
        newest = self._counts[minutes[-1]] if minutes else {}
        before = self._counts[minutes[0]] if len(minutes) > 1 else {}
        rows = [(name, newest.get(name, 0), before.get(name, 0)) for name in {*newest, *before}]
        return sorted(rows, key=lambda row: (-row[1], -row[2], row[0]))[:_SHOWN]


@contextlib.contextmanager
def screen() -> Iterator[Show]:
    if not sys.stdout.isatty():
        yield _PlainLines().show
        return
    with output.live_view() as draw:
        yield lambda trending, state: draw(drawn(trending, state))


def drawn(trending: Trending, state: PipelineState | None) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    minute = trending.minute
    if minute is None:
        running = state is not None and state.queries
        return Text("Spark counts its first tweets…" if running else "Spark is starting…", style="dim")
    table = Table(
        box=SIMPLE_HEAD, pad_edge=False, show_edge=False, caption=_caption(state), caption_justify="left"
    )
    for name, justify in (
        ("hashtag", "left"),
        (f"{minute:%H:%M}", "right"),
        ("before", "right"),
        ("", "left"),
    ):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    rows = trending.top()
    most = max(count for _, count, _ in rows) or 1
    for hashtag, count, before in rows:
        bar = Text("█" * round(_BAR * count / most), style="cyan")
        table.add_row(f"#{hashtag}", str(count), Text(str(before), style="dim"), bar)
    return table


def _caption(state: PipelineState | None) -> str:
    for query in () if state is None else state.queries:
        if query.name == TOPIC and query.rows_in_per_second is not None:
            return (
                f"{query.rows_in_per_second:g} tweets/s, batch {query.batch} in {query.batch_seconds or 0:.1f} s, "
                f"lag {query.lag or 0}"
            )
    return ""


class _PlainLines:
    def __init__(self) -> None:
        self._shown = ""

    def show(self, trending: Trending, _state: PipelineState | None) -> None:
        if trending.minute is None:
            return
        counts = "  ".join(f"#{hashtag} {count}" for hashtag, count, _ in trending.top() if count)
        line = f"{trending.minute:%H:%M}  {counts}"
        if line != self._shown:
            self._shown = line
            click.echo(line)
            sys.stdout.flush()
