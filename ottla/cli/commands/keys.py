"""`ottla keys …`"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from ottla.cli import output
from ottla.cli.errors import JobError
from ottla.cli.options import json_option

_file = click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")


@click.group(short_help="Create and rotate keys for encrypted values.")
def keys() -> None:
    """Create and rotate the keys in a key file. They wrap the data keys that encrypt values.

    If you lose the file, you lose the values. Keep a copy in a safe place, away from the broker's data.

    \b
    Examples:
      ottla keys new keys.json
      ottla produce orders --encrypt-with file:keys.json -m secret
      ottla consume orders --decrypt-with file:keys.json --from-beginning
      ottla keys rotate keys.json
    """


@keys.command()
@_file
@click.option("--name", default="default", show_default=True, help="Name of the key.")
def new(file: Path, name: str) -> None:
    """Create a key file with one key of 256 bits, readable only by its owner."""
    from ottla.encryption import make_key_file

    with _sentences():
        make_key_file(file, name)
    output.done(f"{file} has version 1 of the key '{name}'.")


@keys.command()
@_file
@click.option("--name", help="Key to rotate, if the file has several. An unknown name creates a new key.")
def rotate(file: Path, name: str | None) -> None:
    """Add a version to a key. It encrypts new values; older versions still decrypt.

    Running producers switch to it with their next data key, within an hour by default.
    """
    from ottla.encryption import add_key_version

    with _sentences():
        key, version = add_key_version(file, name)
    output.done(f"{file} has version {version} of the key '{key}'.")


@keys.command("list")
@_file
@json_option()
def list_(file: Path, as_json: bool) -> None:
    """Show the names and versions of the keys, without the keys themselves."""
    from ottla.client.encryption import read_key_file

    with _sentences():
        found = {name: sorted(versions) for name, versions in read_key_file(file).items()}
    if as_json:
        output.print_json(found)
        return
    rows = [(name, max(versions), ", ".join(map(str, versions))) for name, versions in found.items()]
    output.print_table(("KEY", "LATEST", "VERSIONS"), rows)


@contextmanager
def _sentences() -> Iterator[None]:
    from ottla.encryption import EncryptionError

    try:
        yield
    except EncryptionError as error:
        raise JobError(str(error)) from None
