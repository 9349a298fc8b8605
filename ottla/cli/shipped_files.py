"""Files that come with Ottla: the classic configuration files, the examples."""

from __future__ import annotations

from pathlib import Path

from ottla.cli.errors import JobError


def shipped_folder(name: str) -> Path:
    """Return the folder: beside the package in a checkout, inside of it when it was installed."""
    package = Path(__file__).parents[1]
    is_checkout = (package.parent / "pyproject.toml").is_file()
    folder = (package.parent if is_checkout else package) / name
    if not folder.is_dir():
        raise JobError(f"The folder {name} is not part of this installation of Ottla: install it again.")
    return folder
