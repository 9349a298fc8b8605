"""`ottla cluster …`"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.commands.cluster.roll import roll
from ottla.cli.commands.completion import complete_topics
from ottla.cli.options import client_options, confirm_or_exit, count_option, json_option, yes_option

if TYPE_CHECKING:
    from ottla.cli.jobs.rebalance import ClusterNow, Progress, Proposal
    from ottla.client.admin.offsets import Partition

_SHOWN = 40
_REPORT_EVERY = 5.0  # seconds, where a line cannot be overwritten


@click.group(short_help="Balance a cluster, or restart it broker by broker.")
def cluster() -> None:
    """Balance a cluster, or restart it broker by broker.

    \b
    Examples:
      ottla cluster rebalance --dry-run
      ottla cluster rebalance --drain 2 --throttle 50000000
      ottla cluster roll --restart-command 'systemctl restart ottla@{broker}'
    """


cluster.add_command(roll)


@cluster.command()
@click.option("--dry-run", is_flag=True, help="Show the plan and change nothing.")
@click.option(
    "--topics",
    "-t",
    multiple=True,
    metavar="TOPIC[,…]",
    shell_complete=complete_topics,
    help="Move and count only these topics. May be repeated.",
)
@click.option(
    "--drain",
    type=int,
    multiple=True,
    metavar="BROKER",
    help="Move all replicas off this broker, whether it runs or not. May be repeated.",
)
@click.option("--leaders-only", is_flag=True, help="Balance only the leaders, without copying data.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0, max=100),
    default=10,
    show_default=True,
    metavar="PERCENT",
    help="Allowed deviation of a broker's bytes from the mean.",
)
@count_option("--batch", default=10, show_default=True, help="Number of partitions to move at a time.")
@click.option(
    "--throttle",
    type=click.IntRange(min=1),
    metavar="BYTES",
    help="Limit for the bytes per second that a broker sends and receives for moving partitions.",
)
@yes_option
@json_option("Print the plan as JSON, which kafka-reassign-partitions takes too.")
@client_options
def rebalance(
    client: Client,
    dry_run: bool,
    topics: tuple[str, ...],
    drain: tuple[int, ...],
    leaders_only: bool,
    tolerance: float,
    batch: int,
    throttle: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Balance replicas, bytes and leaders between brokers and racks.

    Shows the plan, asks for confirmation and carries it out. Ctrl-C stops between two partitions; run the same command
    again to continue.

    \b
    Examples:
      ottla cluster rebalance --dry-run
      ottla cluster rebalance --throttle 50000000 --batch 5
      ottla cluster rebalance --drain 2 --yes
    """
    from ottla.cli.jobs.rebalance import look, propose

    if leaders_only and drain:
        raise click.UsageError("--drain copies replicas, which --leaders-only does not: leave one out.")
    named = [name for given in topics for name in given.split(",") if name]
    now = look(client, named)
    proposal = propose(now, drained=drain, tolerance=tolerance / 100, leaders_only=leaders_only)
    if as_json:
        output.print_json(_as_json(proposal))
    _warn(proposal)
    if not as_json:
        _show(now, proposal)
    if dry_run:
        return
    if not proposal.is_empty:
        confirm_or_exit(_question(proposal), yes)
    _carry_out(client, now, proposal, batch=batch, throttle=throttle)


def _carry_out(
    client: Client, now: ClusterNow, proposal: Proposal, *, batch: int, throttle: int | None
) -> None:
    from ottla.cli.jobs.rebalance import Rebalance, elect_preferred, lift_throttles

    reporter = _ProgressReporter()
    run = Rebalance(client, proposal.changes, batch=batch, throttle=throttle, on_progress=reporter)
    try:
        run.run(now.moving)
    except KeyboardInterrupt:
        reporter.end()
        left = (
            f"{len(run.under_way)} partitions go on moving by themselves"
            if run.under_way
            else "Nothing moves"
        )
        held = ", throttled as they are" if run.under_way and throttle is not None else ""
        output.note(f"Interrupted. {left}{held}. Run the same command again to continue.")
        raise
    reporter.end()
    lifted = lift_throttles(client, sorted({topic for topic, _ in now.partitions}))
    changed = [(change.topic, change.partition) for change in proposal.changes]
    refused = elect_preferred(client, [*changed, *proposal.elections])
    if refused:
        output.warn(
            f"{_several(refused)} kept their leaders, because the preferred replicas are not in sync."
        )
    if not proposal.is_empty:
        copied = f" {output.human_bytes(proposal.bytes_to_copy)} were copied." if proposal.moves else ""
        output.done(f"Done.{copied}")
    elif lifted:
        output.done("A throttle that an earlier run had left was lifted.")


# -- output --------------------------------------------------------------------------------------------


def _show(now: ClusterNow, proposal: Proposal) -> None:
    if proposal.moves:
        rows = [
            (
                f"{change.topic}-{change.partition}",
                ",".join(map(str, change.replicas)),
                ",".join(map(str, change.wanted)),
                ",".join(map(str, change.removed)),
                ",".join(map(str, change.added)),
                output.human_bytes(change.bytes_to_copy),
            )
            for change in proposal.moves[:_SHOWN]
        ]
        output.print_table(
            ("PARTITION", "REPLICAS", "WANTED", "FROM", "TO", "TO-COPY"),
            rows,
            ("cyan", None, None, None, None, None),
        )
        if len(proposal.moves) > _SHOWN:
            click.echo(f"… and {len(proposal.moves) - _SHOWN} more, which --json shows.")
        click.echo()
    loads = []
    for broker, before in proposal.before.items():
        after = proposal.after[broker]
        loads.append(
            (
                str(broker),
                now.racks.get(broker) if broker in now.racks else "(away)",
                _arrow(before.replicas, after.replicas),
                _arrow(before.leaders, after.leaders),
                _arrow(output.human_bytes(before.bytes), output.human_bytes(after.bytes)),
            )
        )
    output.print_table(
        ("BROKER", "RACK", "REPLICAS", "LEADERS", "BYTES"), loads, ("cyan", "dim", None, None, None)
    )
    if now.moving:
        output.note(f"{_several(now.moving)} move already, and are shown where they will be.")
    if proposal.is_empty:
        click.echo("There is nothing to even out.")
    else:
        click.echo(f"To do: {_summary(proposal)}. {output.human_bytes(proposal.bytes_to_copy)} to copy.")


def _arrow(before: object, after: object) -> str:
    return str(before) if before == after else f"{before} → {after}"


def _summary(proposal: Proposal) -> str:
    counted = (
        (len(proposal.moves), "partition to move", "partitions to move"),
        (len(proposal.changes) - len(proposal.moves), "change of order", "changes of order"),
        (len(proposal.elections), "election", "elections"),
    )
    return ", ".join(f"{number} {one if number == 1 else many}" for number, one, many in counted if number)


def _question(proposal: Proposal) -> str:
    if not proposal.moves:
        return "Change the leaders?"
    return f"Move {len(proposal.moves)} partitions and copy {output.human_bytes(proposal.bytes_to_copy)}?"


def _warn(proposal: Proposal) -> None:
    if proposal.left_alone:
        output.warn(f"{_several(proposal.left_alone)} have no leader to copy from and stay unchanged.")
    if proposal.fixed:
        output.warn(
            f"{_several(proposal.fixed)} have replicas on brokers that are away, and stay: --drain moves them off."
        )


def _several(partitions: list[Partition]) -> str:
    names = [f"{topic}-{number}" for topic, number in partitions[:3]]
    more = f" and {len(partitions) - 3} more" if len(partitions) > 3 else ""
    return ", ".join(names) + more


def _as_json(proposal: Proposal) -> dict[str, object]:
    return {
        "version": 1,
        "partitions": [
            {
                "topic": change.topic,
                "partition": change.partition,
                "replicas": list(change.wanted),
                "current_replicas": list(change.replicas),
                "bytes_to_copy": change.bytes_to_copy,
            }
            for change in proposal.changes
        ],
        "elections": [{"topic": topic, "partition": number} for topic, number in proposal.elections],
        "bytes_to_copy": proposal.bytes_to_copy,
        "brokers": [
            {"broker": broker, "before": before, "after": proposal.after[broker]}
            for broker, before in proposal.before.items()
        ],
    }


class _ProgressReporter:
    """Shows the progress: a refreshed line on a terminal, elsewhere a line per change."""

    def __init__(self) -> None:
        self._last: Progress | None = None
        self._reported_at = 0.0

    def __call__(self, progress: Progress) -> None:
        if not progress.partitions and not progress.under_way:
            return
        terminal, now = sys.stderr.isatty(), time.monotonic()
        over = progress.moved == progress.partitions and not progress.under_way
        if progress == self._last or not (terminal or over or now - self._reported_at >= _REPORT_EVERY):
            return
        self._last, self._reported_at = progress, now
        text = (
            f"{progress.moved} of {progress.partitions} partitions moved, {progress.under_way} on their way, "
            f"{output.human_bytes(progress.copied)} of {output.human_bytes(progress.bytes)}"
        )
        click.echo(f"\r\x1b[K{text}" if terminal else text, err=True, nl=not terminal)

    def end(self) -> None:
        if self._last is not None and sys.stderr.isatty():
            click.echo(err=True)
