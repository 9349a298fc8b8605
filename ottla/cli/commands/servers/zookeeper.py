"""`ottla zookeeper`"""

from __future__ import annotations

import errno
import signal
import socket
from pathlib import Path

import click

from ottla.cli.commands.servers.start import parse_listen
from ottla.cli.errors import JobError
from ottla.cli.signals import ending_signals

DEFAULT_LISTEN = "127.0.0.1:2181"
DEFAULT_DATA = Path("ottla-data") / "zookeeper"


@click.group(short_help="Run ZooKeeper, which clusters are coordinated by.")
def zookeeper() -> None:
    """Run ZooKeeper, which clusters of several brokers are coordinated by.

    It is Apache ZooKeeper itself, from the jars that come with PySpark: `pip install 'ottla[spark]'` brings it.
    `zookeeper-shell` looks into it.
    """


@zookeeper.command(short_help="Start a server, or an ensemble of three.")
@click.option(
    "--listen", "-l", metavar="HOST:PORT", default=DEFAULT_LISTEN, show_default=True, help="Where to listen."
)
@click.option(
    "--data",
    "-d",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DATA,
    show_default=True,
    help="Where its data is kept.",
)
@click.option(
    "--servers",
    type=click.Choice(["1", "3", "5"]),
    default="1",
    show_default=True,
    help="How many servers of an ensemble, on PORT, PORT+1, …",
)
def start(listen: str, data: Path, servers: str) -> None:
    """Start ZooKeeper in the foreground; Ctrl-C stops it.

    \b
    Examples:
      ottla zookeeper start
      ottla zookeeper start --servers 3 --data /var/lib/zookeeper
    """
    from ottla.jvm.java import NoJava
    from ottla.jvm.zookeeper import NoZooKeeper, ensemble

    host, _, port = parse_listen(listen).rpartition(":")
    members = ensemble(data.absolute(), int(servers), host=host.strip("[]"), port=int(port))
    for server in members:
        its_host, _, its_port = server.address.rpartition(":")
        ensure_free(its_host.strip("[]"), int(its_port), "with --listen HOST:PORT")
    try:
        for server in members:
            server.launch()
        for server in members:
            server.wait()
        connect = ",".join(server.address for server in members)
        click.echo(f"ZooKeeper is ready at {connect}, with its data in {data}.")
        click.echo(f"Try: zookeeper-shell {members[0].address} ls /")
        click.echo(f"     ottla start --set zookeeper.connect={connect}")
        signal.sigwait(ending_signals())
    except (NoJava, NoZooKeeper) as error:
        raise JobError(str(error)) from None
    except OSError as error:
        raise JobError(f"{data} cannot be used for its data: {error.strerror}.") from None
    except KeyboardInterrupt:
        pass
    finally:
        for server in members:
            server.stop()
    click.echo("Stopped cleanly.")


def ensure_free(host: str, port: int, listen_elsewhere: str) -> None:
    """Said before a server is started: it would say it in a stack trace, and another would answer in its place."""
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise JobError(
                f"Port {port} on {host or 'this machine'} is taken by another program: stop it, or listen elsewhere "
                f"{listen_elsewhere}."
            ) from None
        raise JobError(f"Cannot listen on {host or '*'}:{port}: {error.strerror or error}.") from None
