"""`ottla zookeeper`"""

from __future__ import annotations

import errno
import signal
import socket
import stat
from pathlib import Path

import click

from ottla.cli.commands.servers.start import parse_listen
from ottla.cli.errors import JobError
from ottla.cli.signals import ending_signals
from ottla.properties import PropertiesError, parse_properties

DEFAULT_LISTEN = "127.0.0.1:2181"
DEFAULT_DATA = Path("ottla-data") / "zookeeper"
_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(short_help="Run ZooKeeper, which coordinates clusters.")
def zookeeper() -> None:
    """Run ZooKeeper, which coordinates clusters of several brokers.

    This is Apache ZooKeeper, from the jars that come with PySpark: `pip install 'ottla[spark]'` installs it.
    `zookeeper-shell` shows its contents.
    """


@zookeeper.command(short_help="Start a server, or an ensemble.")
@click.option(
    "--listen",
    "-l",
    metavar="HOST:PORT",
    default=DEFAULT_LISTEN,
    show_default=True,
    help="Address to listen on.",
)
@click.option(
    "--data",
    "-d",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_DATA,
    show_default=True,
    help="Data directory.",
)
@click.option(
    "--servers",
    type=click.Choice(["1", "3", "5"]),
    default="1",
    show_default=True,
    help="Number of servers, on PORT, PORT+1, …",
)
@click.option(
    "--keystore",
    type=_FILE,
    metavar="FILE",
    help="Private key and certificates (PEM). Turns on TLS and refuses plain connections.",
)
@click.option(
    "--truststore",
    type=_FILE,
    metavar="FILE",
    help="CA certificates (PEM) to trust for clients and other servers.",
)
@click.option(
    "--client-auth",
    type=click.Choice(["none", "want", "need"]),
    default="none",
    show_default=True,
    help="With TLS: require client certificates.",
)
@click.option(
    "--users",
    type=_FILE,
    metavar="FILE",
    help="Require logins. File with lines NAME=PASSWORD, readable only by its owner.",
)
def start(
    listen: str,
    data: Path,
    servers: str,
    keystore: Path | None,
    truststore: Path | None,
    client_auth: str,
    users: Path | None,
) -> None:
    """Start ZooKeeper in the foreground; Ctrl-C stops it.

    \b
    Examples:
      ottla zookeeper start
      ottla zookeeper start --servers 3 --data /var/lib/zookeeper
      ottla zookeeper start --keystore zookeeper.pem --truststore ca.pem --users users.properties
    """
    from ottla.jvm.java import NoJava
    from ottla.jvm.zookeeper import NoZooKeeper, ServerSecurity, ensemble

    if keystore is None and (truststore is not None or client_auth != "none"):
        raise click.UsageError("--truststore and --client-auth are for TLS: add --keystore.")
    if truststore is None and (client_auth != "none" or (keystore is not None and servers != "1")):
        raise click.UsageError("Certificates cannot be checked: add --truststore.")
    security = ServerSecurity(keystore, truststore, client_auth, _read_users(users))
    host, _, port = parse_listen(listen).rpartition(":")
    members = ensemble(
        data.absolute(), int(servers), host=host.strip("[]"), port=int(port), security=security
    )
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
        tls = "-zk-tls-config-file zookeeper-client.properties " if security.uses_tls else ""
        click.echo(f"Try: zookeeper-shell {members[0].address} {tls}ls /")
        if security.uses_tls or security.users:
            click.echo(
                "     docs/how-to/secure-a-cluster.md, section ZooKeeper, has what brokers and tools need to reach it."
            )
        else:
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


def _read_users(path: Path | None) -> dict[str, str]:
    if path is None:
        return {}
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise JobError(f"{path} has passwords in it and others can read it: chmod 600 {path}.")
    try:
        users = {name: password for name, password, _ in parse_properties(path.read_text())}
    except (PropertiesError, UnicodeDecodeError):
        raise JobError(f"{path} cannot be read: write lines NAME=PASSWORD.") from None
    if not users or not all(name and password for name, password in users.items()):
        raise JobError(f"{path} must have lines NAME=PASSWORD, and neither part may be empty.")
    return users


def ensure_free(host: str, port: int, listen_elsewhere: str) -> None:
    """Check before the start: the server would only print a stack trace, and another server would answer instead."""
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
