"""`ottla fake`"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import click

from ottla.cli.errors import JobError
from ottla.cli.options import count_option, pairs_option
from ottla.cli.signals import ending_signals

if TYPE_CHECKING:
    import asyncio

    from ottla.testing.fake import Fake


@click.command(short_help="Run a test broker with a control API.")
@count_option("--port", at_least=0, default=0, help="Port of the broker. [default: a free one]")
@count_option("--control-port", at_least=0, default=0, help="Port of the control API. [default: a free one]")
@click.option("--registry", is_flag=True, help="Start a schema registry too.")
@click.option(
    "--security",
    type=click.Choice(["SASL_PLAINTEXT", "SASL_SSL", "SSL"]),
    help="Require a login. The user admin may do everything.",
)
@pairs_option("--user", "users", help="Add a user: name=password. May be repeated.")
@click.option("--acls", "has_acls", is_flag=True, help="Deny everything that no ACL allows.")
@pairs_option("--set", "-s", "settings", help="A setting as in server.properties. May be repeated.")
@click.option("--seed", type=int, help="Make faults with a probability repeatable.")
@click.option(
    "--with-parent", is_flag=True, help="Stop when standard input ends, as it does with the parent."
)
def fake(
    port: int,
    control_port: int,
    registry: bool,
    security: str | None,
    users: dict[str, str],
    has_acls: bool,
    settings: dict[str, str],
    seed: int | None,
    with_parent: bool,
) -> None:
    """Start a broker for tests in any language, and print its addresses as a line of JSON.

    The broker keeps its data in a temporary directory. Its control API creates topics, injects faults, shows requests,
    waits for conditions and resets everything between two tests; GET /openapi.json describes it.

    \b
    Examples:
      ottla fake
      ottla fake --registry --with-parent
      ottla fake --security SASL_PLAINTEXT --user ann=secret --acls
    """
    import asyncio

    import uvloop

    from ottla.broker.lifecycle.server import StartupError
    from ottla.testing.broker import Broker
    from ottla.testing.fake import Fake

    try:
        broker = Broker(
            config=settings,
            port=port,
            security=security,
            users=users or None,
            acls=[] if has_acls else None,
            registry=registry,
            seed=seed,
        )
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(Fake(broker, port=control_port), with_parent))
    except (StartupError, ValueError) as error:
        raise JobError(str(error)) from None
    except OSError as error:
        raise JobError(f"Cannot listen on port {control_port}: {error.strerror}.") from None


async def _serve(fake: Fake, with_parent: bool) -> None:
    import asyncio

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in ending_signals():
        loop.add_signal_handler(number, ended.set)
    if with_parent:
        loop.add_reader(sys.stdin, _end_with_input, ended)
    await fake.start()
    try:
        print(json.dumps(fake.addresses()), flush=True)
        await ended.wait()
    finally:
        await fake.stop()


def _end_with_input(ended: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        ended.set()
