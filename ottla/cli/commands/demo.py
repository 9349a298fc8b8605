"""`ottla demo`"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.config import shipped_folder
from ottla.cli.commands.pipeline import require_spark
from ottla.cli.commands.servers.start import DEFAULT_CONSOLE_LISTEN, DEFAULT_LISTEN
from ottla.cli.errors import JobError
from ottla.cli.options import directory_option
from ottla.cli.signals import StopRequest, stop_requested
from ottla.python_process import python_command, python_environment

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ottla.spark.pipelines.state import PipelineState

# Child processes that end with their command.

_TIME_TO_END = 30.0
_LOOK_EVERY = 0.05


class Child:
    """A Python process in its own session. Ctrl-C reaches only the command, which then ends the child."""

    def __init__(self, name: str, output: Path, arguments: tuple[str, ...]) -> None:
        self.name = name
        self._output = output
        with output.open("w") as out:
            self._process = subprocess.Popen(
                python_command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**python_environment(), "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def last_words(self) -> str:
        lines = [line for line in self.output().splitlines() if line.strip()]
        return lines[-1].removeprefix("Error: ") if lines else "it did not say why."

    def end(self) -> None:
        deadline = time.monotonic() + _TIME_TO_END
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TIME_TO_END)
        # Java notices that its Python has ended, and ends a moment later.
        while self._signal_group(0) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True


class Children:
    """Children end in reverse order of their start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[Child] = []

    def start(self, name: str, *arguments: str) -> Child:
        child = Child(name, self._directory / f"{name}.log", arguments)
        self._started.append(child)
        return child

    def ended(self) -> Child | None:
        return next((child for child in self._started if not child.is_running), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._started):
            child.end()


# The hashtag counts of the last minutes, on the terminal.

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


# `ottla demo`: a broker, a generator of tweets and a pipeline, each in its own process.

PIPELINE = "demo"


@click.command(short_help="Run a pipeline over live events.")
@click.option(
    "--listen",
    "-l",
    default=DEFAULT_LISTEN,
    show_default=True,
    metavar="HOST:PORT",
    help="Address of the broker. Port 0 picks a free port.",
)
@directory_option(
    "--data", "-d", help="Directory for messages and checkpoints. [default: a temporary directory]"
)
@click.option(
    "--rate",
    type=click.FloatRange(min=0.1),
    default=20,
    show_default=True,
    metavar="N",
    help="Tweets per second.",
)
@click.option(
    "--console",
    metavar="HOST:PORT",
    help=f"Address of the console. [default: {DEFAULT_CONSOLE_LISTEN}, or a free port]",
)
@click.option("--master", "-m", metavar="URL", help="Spark master. [default: this machine]")
@click.option("--seconds", type=click.FloatRange(min=0), metavar="N", help="Stop after this time.")
def demo(
    listen: str,
    data: Path | None,
    rate: float,
    console: str | None,
    master: str | None,
    seconds: float | None,
) -> None:
    """Start a broker, send tweets to it, and count their hashtags per minute with a pipeline on Spark.

    The broker is a real one; use it from another terminal. Ctrl-C stops everything.

    \b
    Examples:
      ottla demo
      ottla demo --rate 500 --data demo
    """
    require_spark()
    examples = shipped_folder("examples")
    with stop_requested(signal.SIGHUP) as stop, _workplace(data) as place, Children(place) as children:
        has_console = find_spec("jinja2") and find_spec("httptools")
        beside = ("--console", console or _console_address()) if has_console else ()
        broker = children.start(
            "broker", "-m", "ottla", "start", "--listen", listen, "--data", str(place / "broker"), *beside
        )
        address = _wait_for_broker(broker, stop)
        if address is None:
            return
        _print_welcome(address, _said(broker, "Console"))
        where = ("--bootstrap-server", address)
        children.start("feed", str(examples / "feed.py"), "tweets", "--rate", str(rate), *where)
        options = [*where, "--checkpoints", str(place / "checkpoints"), "--trigger", "1 second"]
        options += ["--name", PIPELINE, "--conf", "spark.sql.shuffle.partitions=2"]
        if master is not None:
            options += ["--master", master]
        pipeline_file = str(examples / "tweets" / "pipeline.py")
        children.start("pipeline", "-m", "ottla", "pipeline", "run", pipeline_file, *options)

        trending = Trending(address)
        try:
            _show(trending, children, stop, seconds)
        finally:
            trending.close()
            click.echo("\rStopping…" if sys.stdout.isatty() else "Stopping…")
    click.echo("Stopped cleanly.")


@contextlib.contextmanager
def _workplace(data: Path | None) -> Iterator[Path]:
    if data is not None:
        try:
            data.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(f"{data} cannot be used: {error.strerror}.") from None
        yield data.absolute()
        return
    with tempfile.TemporaryDirectory(prefix="ottla-demo-", ignore_cleanup_errors=True) as directory:
        yield Path(directory)


def _wait_for_broker(broker: Child, stop: StopRequest) -> str | None:
    """Return the broker's address, or None if the demo is stopped before the broker is ready."""
    while not stop.wait(0.05):
        lines = broker.output().splitlines()
        if any("Ctrl-C" in line for line in lines):
            return (_said(broker, "Listening") or "").split(",")[0]
        if not broker.is_running:
            raise JobError(
                f"The broker did not start: {broker.last_words()} `ottla demo --listen 127.0.0.1:0` takes a free port."
            )
    return None


def _console_address() -> str:
    host, _, port = DEFAULT_CONSOLE_LISTEN.rpartition(":")
    try:
        with socket.create_server((host, int(port))):
            return DEFAULT_CONSOLE_LISTEN
    except OSError:
        return f"{host}:0"


def _said(broker: Child, label: str) -> str | None:
    """Return the text after a label in the output of `ottla start`."""
    lines = (line.split(maxsplit=1) for line in broker.output().splitlines())
    return next((words[1] for words in lines if len(words) == 2 and words[0] == label), None)


def _print_welcome(address: str, console: str | None) -> None:
    option = "" if address == DEFAULT_LISTEN else f" -b {address}"
    click.secho("Ottla is ready.", fg="green", bold=True)
    click.echo(click.style("Listening ", dim=True) + click.style(address, fg="cyan"))
    if console is not None:
        click.echo(click.style("Console   ", dim=True) + click.style(console, fg="cyan"))
    click.echo("\nTry in another terminal:")
    for command in (
        f'ottla sql -e "SHOW TOPICS;"{option}',
        f"ottla consume tweets{option}",
        f"ottla groups describe trending{option}",
        f"ottla pipeline status {PIPELINE} --watch",
    ):
        click.echo("  " + click.style(command, bold=True))
    click.echo("\nCtrl-C ends all of it. Spark is starting…\n")
    sys.stdout.flush()


def _show(trending: Trending, children: Children, stop: StopRequest, seconds: float | None) -> None:
    from ottla.spark.pipelines.state import Pipelines

    pipelines = Pipelines()
    end = None if seconds is None else time.monotonic() + seconds
    with screen() as show:
        while not stop.is_set() and (end is None or time.monotonic() < end):
            trending.read(0.5)
            show(trending, pipelines.find(PIPELINE))
            ended = children.ended()
            if ended is not None:
                raise JobError(f"The {ended.name} ended: {ended.last_words()}")
