"""`ottla pipeline …`"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.cli.options import (
    bootstrap_server_option,
    client_options,
    confirm_or_exit,
    json_option,
    pairs_option,
    yes_option,
)
from ottla.python_process import python_command, python_environment

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ottla.spark.pipelines.query_progress import QueryProgress
    from ottla.spark.pipelines.runner import Plan
    from ottla.spark.pipelines.state import Pipelines, PipelineState

# Display of pipelines: a live line per query on a terminal, a plain line per batch elsewhere.

LIST_COLUMNS = ("NAME", "STATE", "PID", "QUERIES", "SINCE", "MASTER", "FILE")
QUERY_COLUMNS = (
    "QUERY", "BATCH", "ROWS", "ROWS/S IN", "ROWS/S OUT", "BATCH TIME", "LAG", "STATE ROWS", "STATE SIZE",
)  # fmt: skip


def list_row(state: PipelineState) -> tuple[object, ...]:
    return (
        state.name,
        str(state.phase),
        state.pid if state.is_alive else None,
        len(state.queries),
        moment(state.started_at if state.is_alive else state.ended_at or state.started_at),
        state.master,
        state.file,
    )


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone().isoformat(" ", "seconds")


def query_row(query: QueryProgress) -> tuple[str, ...]:
    return (
        query.name if query.is_active else f"{query.name} (ended)",
        _number(query.batch),
        _number(query.rows_total),
        _number(query.rows_in_per_second),
        _number(query.rows_out_per_second),
        "-" if query.batch_seconds is None else f"{query.batch_seconds:.2f} s",
        _number(query.lag),
        _number(query.state_rows),
        "-" if query.state_bytes is None else output.human_bytes(query.state_bytes),
    )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.1f}"


def batch_line(pipeline: str, query: QueryProgress) -> str:
    parts = [f"{pipeline}/{query.name}: batch {query.batch}", f"{query.rows_in} rows"]
    if query.batch_seconds is not None:
        parts.append(f"{query.batch_seconds:.2f} s")
    parts.append(f"{_number(query.rows_in_per_second)} rows/s in")
    parts.append(f"{_number(query.rows_out_per_second)} rows/s out")
    parts.append(f"lag {_number(query.lag)}")
    if query.state_rows is not None:
        parts.append(f"state {_number(query.state_rows)} rows")
    return ", ".join(parts)


def total_line(pipeline: str, query: QueryProgress) -> str:
    rows = "1 row" if query.rows_total == 1 else f"{_number(query.rows_total)} rows"
    return f"{pipeline}/{query.name}: {rows} processed"


def print_status(state: PipelineState) -> None:
    for label, text in (
        ("Pipeline", f"{state.name} ({state.phase})"),
        ("File", state.file),
        ("Process", f"{state.pid} since {moment(state.started_at)}"),
        ("Spark", state.master),
        ("Cluster", state.bootstrap_servers),
        ("Checkpoints", state.checkpoints),
        ("Log", state.log),
    ):
        click.echo(f"{label:<12} {text}")
    click.echo()
    output.print_table(QUERY_COLUMNS, map(query_row, state.queries))


@contextlib.contextmanager
def progress_printer() -> Iterator[Callable[[PipelineState], None]]:
    if not sys.stdout.isatty():
        yield _PlainLines().show
        return
    with output.live_view() as draw:
        yield lambda state: draw(drawn(state))


def drawn(state: PipelineState) -> RenderableType:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    if not state.queries:
        words = "Spark is starting…" if state.is_alive else str(state.phase)
        return Text(f"{state.name}: {words}", style="dim")
    table = Table(box=SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)
    for number, column in enumerate(QUERY_COLUMNS):
        table.add_column(column.lower(), justify="right" if number else "left", no_wrap=True)
    for query in state.queries:
        table.add_row(*query_row(query), style=None if query.is_active else "dim")
    return table


class _PlainLines:
    def __init__(self) -> None:
        self._phase = ""
        self._batches: dict[str, int | None] = {}

    def show(self, state: PipelineState) -> None:
        if state.phase != self._phase:
            self._phase = state.phase
            click.echo(f"{state.name}: {'Spark is starting…' if state.phase == 'starting' else state.phase}")
        for query in state.queries:
            # A query without new data repeats its number with no rows.
            if query.batch is not None and query.batch != self._batches.get(query.name) and query.rows_in:
                self._batches[query.name] = query.batch
                click.echo(batch_line(state.name, query))
        sys.stdout.flush()


# `ottla pipeline clean`


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the commit logs that would be removed and kept.")
@json_option("With --dry-run: print JSON instead of a table.")
@yes_option
@client_options
def clean(client: Client, dry_run: bool, as_json: bool, yes: bool) -> None:
    """Remove the commit logs of deleted queries from the cluster.

    A query that writes exactly once keeps a commit log, the internal topic __ottla_spark_commits_ID. The command
    removes it if the query's checkpoint was on this machine and no longer exists, because such a query can never
    continue. All other logs stay.

    \b
    Examples:
      ottla pipeline clean --dry-run
      ottla pipeline clean --yes
    """
    from ottla.spark.sink.exactly_once.commit_topic_removal import examine, remove_commit_topics

    findings = examine(client.cluster)
    if as_json and dry_run:
        output.print_json(findings)
        return
    if findings:
        rows = [("yes" if each.removable else "no", each.topic, each.reason) for each in findings]
        output.print_table(("REMOVE", "TOPIC", "REASON"), rows)
    removable = [each.query for each in findings if each.removable]
    if not removable:
        output.note("Nothing to remove.")
        return
    if dry_run:
        return
    count = "1 commit log" if len(removable) == 1 else f"{len(removable)} commit logs"
    confirm_or_exit(f"Remove {count}?", yes)
    remove_commit_topics(client.cluster, removable)
    output.done(f"Removed {count}.")


# `ottla pipeline …`

_LOOK_EVERY = 0.5

# As spark.ottla.trigger has it.
AVAILABLE_NOW = "available-now"


def require_spark() -> None:
    from importlib.util import find_spec

    if find_spec("pyspark") is None:
        raise JobError("Pipelines run on PySpark, which is not installed: pip install 'ottla[spark]'.")


@contextlib.contextmanager
def sentences(*, verbose: bool = False) -> Iterator[None]:
    from ottla.spark.pipelines.state import PipelineError

    try:
        yield
    except PipelineError as error:
        if verbose and error.detail:
            click.echo(error.detail.rstrip(), err=True)
        raise JobError(error.message) from None


def _pipelines() -> Pipelines:
    from ottla.spark.pipelines.state import Pipelines

    return Pipelines()


def complete_names(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in _pipelines().names() if name.startswith(incomplete)]


@click.group(short_help="Run pipelines on Spark, and watch and stop them.")
def pipeline() -> None:
    """Run pipelines on Spark, and watch and stop them.

    A pipeline is a Python file with a function `pipeline(spark)` that starts streaming queries and
    returns them, or a SQL script. Another run continues from the checkpoint.

    \b
    Examples:
      ottla pipeline run trending.py
      ottla pipeline run trending.sql --detach
      ottla pipeline status trending --watch
      ottla pipeline stop trending
    """


@pipeline.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", "-n", help="Name of the pipeline. [default: the name of the file, or of its folder]")
@click.option("--master", "-m", metavar="URL", help="Spark master: local[4], spark://host:7077, yarn, …")
@bootstrap_server_option
@click.option(
    "--checkpoints",
    metavar="DIR",
    help="Checkpoint directory. On a cluster, every node must see it.",
)
@click.option(
    "--trigger",
    "-t",
    metavar="INTERVAL",
    help="Interval between batches, such as '10 seconds'. [default: none]",
)
@click.option("--available-now", is_flag=True, help="Process all existing records, then stop.")
@pairs_option("--conf", "-c", help="Spark setting. May be repeated.")
@click.option("--detach", "-d", is_flag=True, help="Run in the background.")
@click.option("--verbose", "-v", is_flag=True, help="Show Spark's log and tracebacks.")
def run(
    file: Path,
    name: str | None,
    master: str | None,
    bootstrap_server: str,
    checkpoints: str | None,
    trigger: str | None,
    available_now: bool,
    conf: dict[str, str],
    detach: bool,
    verbose: bool,
) -> None:
    """Run the pipeline in FILE until Ctrl-C, or until its queries end.

    \b
    Examples:
      ottla pipeline run trending.py
      ottla pipeline run trending.py --master spark://10.0.0.1:7077 --checkpoints s3a://bucket/checkpoints
      ottla pipeline run nightly.py --available-now
    """
    require_spark()
    if trigger is not None and available_now:
        raise click.UsageError("--trigger and --available-now exclude each other.")
    with sentences(verbose=verbose):
        from ottla.spark.pipelines.loading import default_name, load
        from ottla.spark.pipelines.state import check_name

        load(file)
        name = check_name(name or default_name(file))

        from ottla.spark.pipelines.runner import Plan
        from ottla.spark.pipelines.runner import run as run_here
        from ottla.spark.session import default_master

        pipelines = _pipelines()
        plan = Plan(
            file=file,
            name=name,
            master=master or default_master(),
            bootstrap_servers=Client(bootstrap_server).bootstrap_servers,
            checkpoints=f"{checkpoints or pipelines.default_checkpoints()}/{name}",
            trigger=AVAILABLE_NOW if available_now else trigger,
            conf=conf,
            verbose=verbose,
        )
        _warn_if_unreachable(plan.bootstrap_servers)
        if detach:
            _detach(plan, checkpoints)
            return
        with progress_printer() as report:
            state = run_here(plan, pipelines, report)
    for query in state.queries:
        click.echo(total_line(name, query))
    output.done(f"Pipeline '{name}' is {state.phase}.")


def _warn_if_unreachable(bootstrap_servers: str) -> None:
    """Warn immediately instead of after a minute. This is no error, because the file may name another cluster."""
    client = Client(bootstrap_servers, timeout=3.0)
    try:
        client.ensure_reachable()
    except BrokerUnreachable as error:
        output.warn(error.message)


def _detach(plan: Plan, checkpoints: str | None) -> None:
    name, pipelines = plan.name, _pipelines()
    with pipelines.claim(name):
        log = pipelines.log_file(name)
        log.write_text("")
    options = ["--name", name, "--master", plan.master, "--bootstrap-server", plan.bootstrap_servers]
    if checkpoints is not None:
        options += ["--checkpoints", checkpoints]
    if plan.trigger is not None:
        options += ["--available-now"] if plan.trigger == AVAILABLE_NOW else ["--trigger", plan.trigger]
    for key, value in plan.conf.items():
        options += ["--conf", f"{key}={value}"]
    if plan.verbose:
        options.append("--verbose")
    with log.open("a") as out:
        process = subprocess.Popen(
            python_command("-m", "ottla", "pipeline", "run", str(plan.file), *options),
            env=python_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    while True:
        ended = process.poll() is not None
        state = pipelines.find(name)
        if state is not None and state.pid == process.pid and state.phase != "starting":
            break
        if ended:
            lines = log.read_text().splitlines()
            raise JobError(
                lines[-1].removeprefix("Error: ") if lines else f"Pipeline '{name}' did not start."
            )
        time.sleep(_LOOK_EVERY)
    if state.error is not None:
        raise JobError(state.error)
    output.done(f"Pipeline '{name}' is {state.phase} as process {state.pid}; its log is {state.log}.")


@pipeline.command("list")
@json_option()
def list_(as_json: bool) -> None:
    """List the running and ended pipelines of this machine."""
    with sentences():
        states = _pipelines().all()
    if as_json:
        output.print_json(states)
        return

    output.print_table(LIST_COLUMNS, map(list_row, states))


@pipeline.command()
@click.argument("name", shell_complete=complete_names)
@click.option("--watch", "-w", is_flag=True, help="Refresh until the pipeline ends, or Ctrl-C.")
@json_option()
def status(name: str, watch: bool, as_json: bool) -> None:
    """Show a pipeline's figures: rows per second in and out, batch time, lag, size of the state."""
    with sentences():
        pipelines = _pipelines()
        state = pipelines.get(name)
        show = _json_line if watch and as_json else output.print_json if as_json else None
        if not watch:
            (show or print_status)(state)
        elif show is not None:
            _watch(pipelines, state, show)
        else:
            with progress_printer() as report:
                _watch(pipelines, state, report)
    if state.error is not None and not as_json:
        raise JobError(pipelines.get(name).error or state.error)


def _json_line(state: PipelineState) -> None:
    import dataclasses
    import json

    click.echo(json.dumps(dataclasses.asdict(state), ensure_ascii=False))


def _watch(pipelines: Pipelines, state: PipelineState, show: Callable[[PipelineState], None]) -> None:
    shown = None
    while True:
        if state != shown:
            show(state)
            shown = state
        if not state.is_alive:
            return
        time.sleep(_LOOK_EVERY)
        state = pipelines.get(state.name)


@pipeline.command()
@click.argument("name", shell_complete=complete_names)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to wait for the pipeline to stop.",
)
@click.option(
    "--forget",
    is_flag=True,
    help="Remove the checkpoints and commit logs of its queries, so that the next `run` starts over.",
)
@yes_option
def stop(name: str, timeout: float, forget: bool, yes: bool) -> None:
    """Stop a pipeline. The next `run` continues from the checkpoint.

    \b
    Examples:
      ottla pipeline stop trending
      ottla pipeline stop trending --forget
    """
    with sentences():
        pipelines = _pipelines()
        state = pipelines.get(name)
        if forget:
            confirm_or_exit(f"Remove the checkpoints of '{name}' in {state.checkpoints}?", yes)
        if state.is_alive or not forget:
            state = pipelines.stop(name, timeout)
        if forget:
            _forget(pipelines, state)
            return
    output.done(f"Pipeline '{name}' is {state.phase}.")


def _forget(pipelines: Pipelines, state: PipelineState) -> None:
    """Remove the checkpoints first: after an interruption `clean` misses them and removes the rest."""
    from ottla.spark.sink.exactly_once.commit_topic_removal import remove_commit_topics

    cluster = Client(state.bootstrap_servers).cluster
    cluster.any_connection()  # or nothing is removed
    remove_commit_topics(cluster, pipelines.forget(state.name))
    output.done(f"Pipeline '{state.name}' is forgotten.")


pipeline.add_command(clean)
