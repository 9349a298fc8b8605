"""`ottla install`"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click

from ottla.cli import output
from ottla.cli.errors import JobError
from ottla.cli.jobs.systemd_units import USER, InstalledFile, files
from ottla.cli.options import confirm_or_exit, directory_option, yes_option

_HOMES = ("/home/", "/root/", "/run/user/")


@click.command(short_help="Install units of systemd for brokers and services.")
@click.option("--systemd", is_flag=True, required=True, help="Write units of systemd.")
@directory_option("--root", help="Write below this directory and run nothing, for packages and images.")
@click.option("--dry-run", is_flag=True, help="Show the plan and write nothing.")
@yes_option
def install(systemd: bool, root: Path | None, dry_run: bool, yes: bool) -> None:
    """Install Ottla on this machine: units of systemd, settings in /etc/ottla, data in /var/lib/ottla.

    Shows the plan and asks for confirmation. Settings that exist stay as they are. The units run as the user ottla with
    few rights.

    \b
    Examples:
      ottla install --systemd --dry-run
      sudo /opt/ottla/bin/ottla install --systemd
      ottla install --systemd --root debian/tmp --yes
    """
    assert systemd
    ottla = Path(sys.argv[0]).absolute() if Path(sys.argv[0]).name == "ottla" else _beside_python()
    planned = [(each, _action(each, root)) for each in files(ottla, packaged=root is not None)]
    for each, action in planned:
        click.echo(f"{action:<8} {_place(each, root)}")
    commands = _commands() if root is None else []
    for command in commands:
        click.echo(f"{'run':<8} {' '.join(command)}")
    real = Path(sys.executable).resolve()
    if root is None and str(real).startswith(_HOMES):
        output.warn(
            f"The user {USER} cannot run {real}, because it is in a home directory. Install Ottla elsewhere: "
            "python3 -m venv /opt/ottla && /opt/ottla/bin/pip install ottla."
        )
    if dry_run:
        return
    if root is None and os.geteuid() != 0:
        raise JobError("Only root can install units. Use sudo, or --root DIR to write them elsewhere.")
    confirm_or_exit("Install these files?", yes)
    for each, action in planned:
        if action != "keep":
            _write(each, root)
    for command in commands:
        _run(command)
    if root is None:
        _own_settings(planned)
    output.done("Done." if root is not None else "Done. Start a broker: systemctl enable --now ottla")


def _beside_python() -> Path:
    return Path(sys.executable).with_name("ottla")


def _place(file: InstalledFile, root: Path | None) -> Path:
    return Path(file.path) if root is None else root / file.path.lstrip("/")


def _action(file: InstalledFile, root: Path | None) -> str:
    place = _place(file, root)
    try:
        known = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        return "create"
    except (OSError, ValueError):
        return "keep" if file.is_setting else "replace"
    return "keep" if file.is_setting or known == file.text else "replace"


def _write(file: InstalledFile, root: Path | None) -> None:
    place = _place(file, root)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(file.text, encoding="utf-8")
        place.chmod(file.mode)
    except OSError as error:
        raise JobError(f"{error.filename or place} cannot be written: {error.strerror}.") from None


def _commands() -> list[list[str]]:
    return [["systemd-sysusers", "/usr/lib/sysusers.d/ottla.conf"], ["systemctl", "daemon-reload"]]


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        raise JobError(f"{command[0]} is not installed: this machine does not use systemd.") from None
    except subprocess.CalledProcessError as error:
        raise JobError(f"{' '.join(command)} ended with exit code {error.returncode}.") from None


def _own_settings(planned: list[tuple[InstalledFile, str]]) -> None:
    """Let the units read the settings, which may have passwords, and nobody else."""
    import shutil

    for each, action in planned:
        if each.is_setting and action == "create":
            shutil.chown(each.path, group=USER)
