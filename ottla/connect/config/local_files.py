"""Access control for local files that connectors created over REST may use.

A connector reads and writes as the operating system user of the worker. REST clients must not gain access to that
user's files. The worker therefore rejects connectors that use local files outside the directories named by the
operator:

    connector.file.directories=/srv/connect/in,/srv/connect/out

A standalone worker does not restrict connectors from files on its command line, because they belong to the operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ottla.connect.config.config_def import ConfigError

SETTING = "connector.file.directories"


class FileDirectories:
    """Directories open to connectors. Comparison happens after resolving symbolic links and `..`."""

    def __init__(self, directories: Sequence[str]) -> None:
        self._directories = []
        for each in filter(None, (each.strip() for each in directories)):
            if not Path(each).is_absolute():
                raise ConfigError(f"{SETTING} has '{each}': write an absolute path.")
            self._directories.append(Path(each))

    def problems(self, paths: Mapping[str, str]) -> dict[str, list[str]]:
        """Return errors for forbidden paths, by setting. The path "" means the worker's terminal."""
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
        except (OSError, RuntimeError, ValueError):  # a symlink loop or a NUL byte
            return False


def local_path(url: str) -> str | None:
    """Return the local path of a URL (`/path`, `path`, `file:///path`, `sqlite:///path`), or None for remote URLs."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if parts.scheme.startswith("sqlite"):
        return unquote(parts.path).removeprefix("/") if parts.path.startswith("//") else unquote(parts.path)
    if parts.scheme == "file":
        return unquote(parts.path)
    # A single letter is a drive letter, not a scheme.
    return url if len(parts.scheme) < 2 else None
