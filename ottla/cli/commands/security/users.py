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
    """Use only letters and digits, which survive shells, properties files and JAAS lines."""
    return "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))


@click.group(short_help="Add and remove users with passwords (SASL/SCRAM).")
def users() -> None:
    """Add and remove users with passwords for SCRAM-SHA-512 and SCRAM-SHA-256.

    `ottla acls` grants them rights.

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
    """List users and their SCRAM mechanisms. Brokers store no passwords, so none can be shown."""
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
            help="Number of SCRAM iterations.",
        ),
        file_option("--password-file", help="Read the password from the first line of this file."),
        click.option("--generate", is_flag=True, help="Generate a password and print it."),
    ):  # fmt: skip
        command = option(command)
    return command


@users.command()
@click.argument("name", metavar="USER")
@_password_options
@client_options
def add(client: Client, name: str, generate: bool, password_file: Path | None, iterations: int) -> None:
    """Add a user. Asks for the password; an empty answer generates one and prints it once.

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
    """Change a user's password. Open connections stay."""
    if not _exists(client, name):
        raise JobError(f"User '{name}' does not exist: `ottla users add {name}` adds it.")
    _set_password(client, name, generate, password_file, iterations)


@users.command()
@click.argument("name", metavar="USER")
@yes_option
@client_options
def remove(client: Client, name: str, yes: bool) -> None:
    """Remove a user and refuse further logins. Open connections and the user's ACLs stay."""
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
    """Read the password from a file or the terminal. Other users could see it on the command line."""
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
