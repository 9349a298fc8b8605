"""`ottla tables`"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.jobs.tables import TablesJob, age, spark_session
from ottla.cli.options import Command, client_options, confirm_or_exit, file_option, json_option, yes_option

if TYPE_CHECKING:
    from ottla.spark.tables.materializer import Step

_COLUMNS = ("TOPIC", "FORMAT", "TABLE", "MODE", "ROWS", "FILES", "SIZE", "LAG", "DEAD LETTERS", "COMMITTED")


@click.group(short_help="Keep topics as Iceberg and Delta tables.")
def tables() -> None:
    """Write topics to Iceberg or Delta tables, and look after the tables.

    A topic is a table if its config ottla.table.format is iceberg or delta. For brokers that refuse this config,
    --tables FILE has the settings.
    """


def _tables_options(command: Command) -> Command:
    """Add the options of all commands. The command gets a TablesJob as `job`."""

    @functools.wraps(command)
    def with_job(
        *args: Any, client: Client, warehouse: str | None, tables_file: Path | None, **kwargs: Any
    ) -> Any:
        return command(*args, job=TablesJob(client, warehouse, tables_file), **kwargs)

    decorated: Any = client_options(with_job)
    for option in (
        file_option("--tables", "tables_file", help="Settings of topics and catalogs (YAML or properties)."),
        click.option(
            "--warehouse",
            metavar="DIR",
            envvar="OTTLA_WAREHOUSE",
            show_envvar=True,
            help="Directory of the embedded catalog and of Delta tables. [default: ./ottla-tables]",
        ),
    ):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _run_options(command: Command) -> Command:
    for option in (
        click.option("--master", metavar="URL", help="Spark master. [default: this machine]"),
        click.option(
            "--schema-registry",
            "registry",
            metavar="URL",
            envvar="OTTLA_SCHEMA_REGISTRY_URL",
            show_envvar=True,
            help="URL of the schema registry.",
        ),
    ):
        command = option(command)
    return command


@tables.command(short_help="Keep all tables up to date.")
@click.argument("topics", nargs=-1, metavar="[TOPIC…]")
@click.option("--once", is_flag=True, help="Stop as soon as all tables have caught up.")
@_run_options
@_tables_options
def run(
    job: TablesJob, topics: tuple[str, ...], once: bool, master: str | None, registry: str | None
) -> None:
    """Write the new records of all table topics to their tables, until Ctrl-C.

    Each commit has the offsets that it reaches. So after a crash nothing is lost, and nothing is written twice. Records
    that do not fit into the table go to the table TOPIC~dlq.

    \b
    Examples:
      ottla tables run
      ottla tables run orders --once
      ottla tables run --warehouse /data/tables --schema-registry http://localhost:8081
      ottla tables run --tables tables.yaml --master spark://spark:7077
    """
    from ottla.cli.signals import stop_requested

    _check_some(job, topics)
    with spark_session(master) as spark:
        table_job = _table_job(job, spark, registry, once, topics)
        failures: list[JobError] = []
        outcome: list[bool] = []

        def work() -> None:
            try:
                outcome.append(table_job.run())
            except JobError as error:
                failures.append(error)

        with stop_requested() as stop:
            thread = threading.Thread(target=work, name="tables", daemon=True)
            thread.start()
            while thread.is_alive() and not stop.wait(0.1):
                pass
            table_job.stop()
            thread.join()
    if failures:
        raise failures[0]
    if once and outcome and not outcome[0]:
        sys.exit(1)


def _check_some(job: TablesJob, topics: tuple[str, ...]) -> None:
    """Refuse bad settings before Spark starts."""
    for topic in topics:
        job.settings(topic)
    found, wrong = job.all_settings()
    if not found and wrong:
        raise JobError(wrong[0])
    if not found:
        output.note(
            "No topic is a table yet. Make one with `ottla configs set topic NAME ottla.table.format=iceberg`."
        )


def _table_job(job: TablesJob, spark: Any, registry: str | None, once: bool, topics: tuple[str, ...]) -> Any:
    from ottla.spark.tables.job import TableJob

    return TableJob(
        spark,
        job.connection(registry),
        job.lake,
        job.file,
        report=_say,
        complain=lambda sentence: output.warn(sentence),
        once=once,
        topics=frozenset(topics),
    )


def _say(topic: str, step: Step) -> None:
    parts = [f"{step.rows:,} {'record' if step.rows == 1 else 'records'}"]
    if step.dead_letters:
        parts.append(f"{step.dead_letters:,} dead {'letter' if step.dead_letters == 1 else 'letters'}")
    if step.changes:
        parts.append(f"columns: {', '.join(step.changes)}")
    if step.behind:
        parts.append(f"{step.behind:,} to go")
    click.echo(f"{topic}: {'; '.join(parts)} ({step.seconds:.1f} s)")
    sys.stdout.flush()


@tables.command("list", short_help="List the tables.")
@json_option()
@_tables_options
def list_(job: TablesJob, as_json: bool) -> None:
    """List all table topics with the state of their tables.

    LAG is the number of offsets that the table lacks. COMMITTED is the time since the last commit.

    \b
    Examples:
      ottla tables list
      ottla tables list --json
    """
    found, wrong = job.all_settings()
    rows = [job.row(settings) for settings in found]
    if as_json:
        output.print_json(rows)
    else:
        shown = [
            (
                each.topic,
                each.format,
                each.table,
                each.mode,
                each.rows,
                each.files,
                None if each.bytes is None else output.human_bytes(each.bytes),
                each.lag,
                each.dead_letters,
                age(each.committed_ms),
            )
            for each in rows
        ]
        output.print_table(_COLUMNS, shown)
    for sentence in [*wrong, *(each.error for each in rows if each.error)]:
        output.warn(sentence)


@tables.command(short_help="Describe a table.")
@click.argument("topic")
@json_option()
@_tables_options
def describe(job: TablesJob, topic: str, as_json: bool) -> None:
    """Show where a table is, its columns, its offsets and how other programs open it.

    \b
    Examples:
      ottla tables describe orders
    """
    settings = job.settings(topic)
    row = job.row(settings)
    if row.error:
        raise JobError(row.error)
    table = job.lake.load(settings)
    boundary = None if table is None else table.boundary()
    offsets = {} if boundary is None else dict(sorted(boundary.offsets.items()))
    columns = {} if table is None else {each.name: str(each.type) for each in table.columns()}
    if as_json:
        facts = {
            **row.__dict__,
            "location": None if table is None else table.location(),
            "offsets": offsets,
            "columns": columns,
        }
        output.print_json(facts)
        return
    lines: list[tuple[str, object]] = [
        ("Topic", topic),
        ("Table", f"{row.table} ({row.format})"),
        ("Location", None if table is None else table.location()),
        ("Mode", f"{row.mode}, {row.write_mode}"),
        ("Rows", row.rows),
        ("Files", row.files),
        ("Snapshots", row.snapshots),
        ("Lag", row.lag),
        ("Dead letters", row.dead_letters),
        ("Committed", None if row.committed_ms is None else f"{age(row.committed_ms)} ago"),
        ("Offsets", ", ".join(f"{part}: {end}" for part, end in offsets.items()) or None),
    ]
    if table is not None:
        lines += [(f"Open ({name})", text) for name, text in job.lake.how_to_open(settings).items()]
    for label, value in lines:
        click.echo(f"{label:<18} {output.cell(value)}")
    if columns:
        click.echo()
        output.print_table(("COLUMN", "TYPE"), list(columns.items()))


@tables.command(short_help="Write a table again from the first record of its topic.")
@click.argument("topic")
@yes_option
@click.option("--force", is_flag=True, help="Go on even if the topic has lost its first records.")
@_run_options
@_tables_options
def backfill(
    job: TablesJob, topic: str, yes: bool, force: bool, master: str | None, registry: str | None
) -> None:
    """Drop a table and write it again from the first record of its topic.

    Use it after a change of ottla.table.mode or ottla.table.partition.spec. A new table needs no backfill: it begins
    with the first record anyway.

    \b
    Examples:
      ottla tables backfill orders --yes
    """
    settings = job.settings(topic)
    lost = job.missing_records(settings)
    if lost and not force and job.lake.load(settings) is not None:
        raise JobError(
            f"The table may have rows that topic {topic} no longer has ({', '.join(lost[:3])}). Pass --force to drop "
            "them."
        )
    confirm_or_exit(f"Drop the table of {topic} and write it again?", yes)
    job.lake.drop(settings)
    with spark_session(master) as spark:
        if not _table_job(job, spark, registry, True, (topic,)).run():
            sys.exit(1)


def _maintained(job: TablesJob, topic: str | None, work: Callable[[Any], int], what: tuple[str, str]) -> None:
    from ottla.spark.tables.lakes.maintenance import Maintenance

    found = [job.settings(topic)] if topic else job.all_settings()[0]
    for settings in found:
        count = work(Maintenance(job.lake, settings))
        click.echo(f"{settings.topic}: {count} {what[count != 1]}")


@tables.command(short_help="Remove old snapshots.")
@click.argument("topic", required=False)
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    metavar="HOURS",
    help="Age of snapshots to remove. [default: ottla.table.snapshot.retention.ms]",
)
@_tables_options
def expire(job: TablesJob, topic: str | None, older_than: float | None) -> None:
    """Remove snapshots beyond their retention, and the files that only they use.

    The table job does this as well. ottla.table.snapshot.min.count snapshots are kept in any case. For a Delta table,
    it removes unused files.

    \b
    Examples:
      ottla tables expire
      ottla tables expire orders --older-than 24
    """
    import time

    until = None if older_than is None else time.time_ns() // 1_000_000 - round(older_than * 3_600_000)
    _maintained(
        job, topic, lambda each: each.expire(older_than_ms=until), ("snapshot removed", "snapshots removed")
    )


@tables.command(short_help="Merge small files.")
@click.argument("topic", required=False)
@_tables_options
def compact(job: TablesJob, topic: str | None) -> None:
    """Merge small files to files of about ottla.table.target.file.bytes.

    The table job does this as well, after ottla.table.compaction.min.files commits.

    \b
    Examples:
      ottla tables compact
      ottla tables compact orders
    """
    _maintained(job, topic, lambda each: each.compact(least=2), ("file merged", "files merged"))


@tables.command(short_help="Drop a table.")
@click.argument("topic")
@yes_option
@_tables_options
def drop(job: TablesJob, topic: str, yes: bool) -> None:
    """Drop a table and its dead letters, with all their files. The topic and its records stay.

    While the topic's config ottla.table.format is set, `ottla tables run` creates the table again.

    \b
    Examples:
      ottla tables drop orders --yes
    """
    settings = job.settings(topic)
    confirm_or_exit(f"Drop the table of {topic}?", yes)
    dropped = job.lake.drop(settings)
    if not dropped:
        raise JobError(f"Topic {topic} has no table yet.")
    output.done(f"Dropped {' and '.join(dropped)}.")
