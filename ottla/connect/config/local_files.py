"""Which files of the worker's machine a connector may use that comes over REST.

A connector reads and writes as the operating system's user who runs the worker. Whoever reaches the REST API must not
get that user's files by it. So connectors that use local files are refused, except below the directories that the
worker's operator names:

    connector.file.directories=/srv/connect/in,/srv/connect/out

Connectors from files on the command line of a standalone worker are the operator's own, and are not limited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ottla.connect.config.config_def import ConfigError

SETTING = "connector.file.directories"


class FileDirectories:
    """Directories below which connectors may use files. Links and `..` are resolved before the comparison."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = []
        for each in filter(None, (each.strip() for each in directories)):
            if not Path(each).is_absolute():
                raise ConfigError(f"{SETTING} has '{each}': write an absolute path.")
            self._directories.append(Path(each))

    def problems(self, paths: Mapping[str, str]) -> dict[str, list[str]]:
        """Errors by setting, for paths that are not allowed. The path "" is the worker's own terminal."""
        return {
            name: [
                f"Invalid value {path or 'null'} for configuration {name}: Connectors over REST may use local files "
                f"only below the directories that the worker's {SETTING} names"
                + (
                    f" ({', '.join(map(str, self._directories))})."
                    if self._directories
                    else ", and it names none."
                )
            ]
            for name, path in paths.items()
            if not self._allows(path)
        }

    def _allows(self, path: str) -> bool:
        if not path:
            return bool(self._directories)
        try:
            resolved = Path(path).resolve()
            return any(resolved.is_relative_to(each.resolve()) for each in self._directories)
        except (OSError, RuntimeError, ValueError):  # a circle of links, a zero byte
            return False


def local_path(url: str) -> str | None:
    """The path of a URL that is on this machine: `/path`, `path`, `file:///path`, `sqlite:///path`; else None."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if parts.scheme.startswith("sqlite"):
        return unquote(parts.path).removeprefix("/") if parts.path.startswith("//") else unquote(parts.path)
    if parts.scheme == "file":
        return unquote(parts.path)
    # A single letter is a drive rather than a scheme.
    return url if len(parts.scheme) < 2 else None
