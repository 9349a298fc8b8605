"""`ottla pipeline …`"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.pipeline.clean import clean
from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.cli.options import bootstrap_server_option, confirm_or_exit, json_option, pairs_option, yes_option
from ottla.python_process import python_command, python_environment

if TYPE_CHECKING:
    from ottla.spark.pipelines.runner import Plan
    from ottla.spark.pipelines.state import Pipelines, PipelineState

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

        from ottla.cli.commands.pipeline.view import progress_printer, total_line
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
    from ottla.cli.commands.pipeline.view import LIST_COLUMNS, list_row

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
            from ottla.cli.commands.pipeline.view import print_status

            (show or print_status)(state)
        elif show is not None:
            _watch(pipelines, state, show)
        else:
            from ottla.cli.commands.pipeline.view import progress_printer

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
