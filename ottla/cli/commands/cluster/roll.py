"""`ottla cluster roll`"""

from __future__ import annotations

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.options import client_options, confirm_or_exit, seconds_option, yes_option


@click.command(short_help="Restart the brokers one after another.")
@click.option(
    "--restart-command",
    required=True,
    metavar="COMMAND",
    envvar="OTTLA_RESTART_COMMAND",
    show_envvar=True,
    help="Shell command that restarts a broker. {broker}, {host} and {port} stand for its id and address.",
)
@click.option(
    "--broker",
    "brokers",
    type=int,
    multiple=True,
    metavar="BROKER",
    help="Restart only this broker. May be repeated. [default: all, the controller last]",
)
@seconds_option("--broker-timeout", default=300.0, help="Time for one broker to restart and catch up.")
@click.option("--dry-run", is_flag=True, help="Check the cluster, show the order and restart nothing.")
@click.option("--force", is_flag=True, help="Restart even if partitions become unavailable for a while.")
@yes_option
@client_options
def roll(
    client: Client,
    restart_command: str,
    brokers: tuple[int, ...],
    broker_timeout: float,
    dry_run: bool,
    force: bool,
    yes: bool,
) -> None:
    """Restart brokers one after another, without downtime.

    Before and after each broker the command waits until all replicas of all partitions are in sync. It stops at the
    first problem; run it again to continue with --broker.

    \b
    Examples:
      ottla cluster roll --restart-command 'systemctl restart ottla@{broker}' --dry-run
      ottla cluster roll --restart-command 'ssh {host} sudo systemctl restart ottla'
      ottla cluster roll --restart-command 'docker compose restart broker-{broker}' --yes
    """
    from ottla.cli.jobs.roll import Roll

    job = Roll(client, restart_command, timeout=broker_timeout, say=click.echo, force=force)
    plan = job.plan(brokers)
    job.check(plan)
    order = ", ".join(str(node.id) for node in plan.brokers)
    click.echo(f"Order: {order}. The controller is broker {plan.controller}.")
    if dry_run:
        click.echo("All replicas are in sync. Nothing was restarted.")
        return
    count = len(plan.brokers)
    confirm_or_exit("Restart 1 broker?" if count == 1 else f"Restart {count} brokers?", yes)
    job.run(plan)
    job.elect_preferred()
    output.done("Done. All replicas are in sync.")
