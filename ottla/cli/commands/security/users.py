"""`ottla users …`"""

from __future__ import annotations

import secrets
import string
import sys
from pathlib import Path

import click

from ottla.cli import output
from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.options import (
    client_options,
    confirm_or_exit,
    count_option,
    file_option,
    json_option,
    yes_option,
)

_LETTERS = string.ascii_letters + string.digits
_LENGTH = 24  # 142 bits
_ITERATIONS = 8192


def make_password() -> str:
    """Of letters and digits only: it has to survive shells, properties and JAAS lines."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


@click.group(short_help="Users with passwords (SASL/SCRAM).")
def users() -> None:
    """Add and remove users with passwords, which log in with SCRAM-SHA-512 or SCRAM-SHA-256.

    What a user may do is a matter of `ottla acls`.

    \b
    Examples:
      ottla users add ann
      ottla users list
      ottla users password ann
      ottla users remove ann
    """


@users.command("list")
@json_option()
@client_options
def list_(client: Client, as_json: bool) -> None:
    """List users and how they can log in. Passwords cannot be shown: brokers do not know them."""
    from ottla.client.admin.scram import describe_credentials

    found = sorted(describe_credentials(client.cluster, None), key=lambda each: each.user)
    if as_json:
        output.print_json(found)
    elif found:
        rows = [(each.user, ", ".join(sorted(each.iterations))) for each in found]
        output.print_table(("USER", "MECHANISMS"), rows, ("cyan", None))
    else:
        output.note("There are no users yet. Add one with `ottla users add NAME`.")


def _password_options(command: click.decorators.FC) -> click.decorators.FC:
    for option in (
        count_option(
            "--iterations", at_least=4096, at_most=16384, default=_ITERATIONS, show_default=True,
            help="How much work it is to try a password.",
        ),
        file_option("--password-file", help="Take the password from the first line of this file."),
        click.option("--generate", is_flag=True, help="Make a password and show it, without asking for one."),
    ):  # fmt: skip
        command = option(command)
    return command


@users.command()
@click.argument("name", metavar="USER")
@_password_options
@client_options
def add(client: Client, name: str, generate: bool, password_file: Path | None, iterations: int) -> None:
    """Add a user. Asks for the password; if none is given, makes one and shows it once.

    \b
    Examples:
      ottla users add ann
      ottla users add ann --generate
      pass show kafka/ann | ottla users add ann
    """
    if _exists(client, name):
        raise JobError(f"User '{name}' exists already: `ottla users password {name}` gives a new password.")
    _set_password(client, name, generate, password_file, iterations)
    output.note(f"What {name} may do: `ottla acls add {name} --read TOPIC --group GROUP`.")


@users.command()
@click.argument("name", metavar="USER")
@_password_options
@client_options
def password(client: Client, name: str, generate: bool, password_file: Path | None, iterations: int) -> None:
    """Give a user a new password. Connections that are open stay."""
    if not _exists(client, name):
        raise JobError(f"User '{name}' does not exist: `ottla users add {name}` adds it.")
    _set_password(client, name, generate, password_file, iterations)


@users.command()
@click.argument("name", metavar="USER")
@yes_option
@client_options
def remove(client: Client, name: str, yes: bool) -> None:
    """Remove a user, who cannot log in from then on. Connections that are open stay, and so do the user's ACLs."""
    from ottla.client.admin.scram import alter_credentials, describe_credentials

    found = describe_credentials(client.cluster, [name])
    if not found:
        raise JobError(f"User '{name}' does not exist.")
    confirm_or_exit(f"Remove user '{name}'?", yes)
    alter_credentials(client.cluster, name, set_={}, delete=found[0].iterations)
    output.done(f"Removed user {name}.")
    output.note(f"The ACLs of {name} stay, if there are any: `ottla acls remove {name}` removes them.")


def _exists(client: Client, name: str) -> bool:
    from ottla.client.admin.scram import describe_credentials

    if not name:
        raise JobError("A user needs a name.")
    return bool(describe_credentials(client.cluster, [name]))


def _set_password(client: Client, name: str, generate: bool, file: Path | None, iterations: int) -> None:
    from ottla.client.admin.scram import MECHANISMS, Secret, alter_credentials

    given = "" if generate else _given_password(name, file)
    secret = Secret(given or make_password(), iterations)
    alter_credentials(client.cluster, name, set_=dict.fromkeys(MECHANISMS, secret))
    output.done(f"User {name} can log in with {' and '.join(MECHANISMS)}.")
    if not given:
        click.echo(f"Password: {secret.password}")
        output.note("It is not shown again.")


def _given_password(name: str, file: Path | None) -> str:
    """Never from the command line, which everybody on this machine can read."""
    if file is not None:
        try:
            given = file.read_text(encoding="utf-8").partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise JobError(f"{file} cannot be read: {reason}.") from None
        if not given:
            raise JobError(f"{file} has no password in its first line.")
        return given
    if sys.stdin.isatty():
        return str(
            click.prompt(
                f"Password of {name} (empty: make one)", hide_input=True, default="", show_default=False,
                confirmation_prompt="Again", err=True,
            )
        )  # fmt: skip
    return sys.stdin.readline().rstrip("\r\n")
