"""`ottla backup` and `ottla restore`"""

from __future__ import annotations

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.options import client_options


@click.command(short_help="Back up a cluster to a directory or S3.")
@click.argument("place", metavar="DIR|s3://BUCKET/PATH")
@click.option(
    "--verify", "only_verify", is_flag=True, help="Compare the files with their checksums, copy nothing."
)
@client_options
def backup(client: Client, place: str, only_verify: bool) -> None:
    """Copy topics with settings and records, group offsets, ACLs, users and quotas.

    A second backup to the same place copies only new records. An interrupted one continues.

    \b
    Examples:
      ottla backup /backups/kafka
      ottla backup 's3://backups/kafka?region=eu-central-1'
      ottla backup /backups/kafka --verify
    """
    from ottla.cli.jobs.backup import back_up, open_store, verify

    store = open_store(place)
    if only_verify:
        files, size = verify(store)
        output.done(
            f"{files} {'file' if files == 1 else 'files'}, {output.human_bytes(size)}: all checksums are right."
        )
        return
    made = back_up(client.cluster, store, click.echo)
    output.done(f"Wrote backup {made['number']} to {store.where}.")


@click.command(short_help="Restore a backup into a new cluster.")
@click.argument("place", metavar="DIR|s3://BUCKET/PATH")
@client_options
def restore(client: Client, place: str) -> None:
    """Restore the newest backup with the same offsets. The topics must not exist yet; an interrupted restore continues.

    Brokers do not reveal passwords, so a user is restored only if OTTLA_PASSWORD_NAME is set. The target must be Ottla.

    \b
    Examples:
      ottla restore /backups/kafka
      OTTLA_PASSWORD_ANN=… ottla restore /backups/kafka -b new:9092
    """
    from ottla.cli.jobs.backup import open_store
    from ottla.cli.jobs.backup import restore as run

    store = open_store(place)
    made = run(client.cluster, store, click.echo)
    if made["skipped_users"]:
        names = ", ".join(made["skipped_users"])
        output.warn(f"these users need a new password (`ottla users add NAME`): {names}.")
    output.done(f"Restored backup {made['number']} from {store.where}.")
