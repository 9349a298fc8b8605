"""Location of one partition's state: the directory under the checkpoint, and the local directory."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ottla.spark.state.change_files import FORMAT

#: Directory under the checkpoint of a query.
FOLDER = "ottla-state"
#: Directory for local copies; defaults to the directory for temporary files.
LOCAL_DIRECTORY = "OTTLA_LOCAL_STATE_DIR"

_ORIGIN = "checkpoint"


class StateError(Exception):
    """A problem that the user of a query can solve. The message is for that user."""


@dataclass(frozen=True)
class StatePlace:
    """`query_id` is the id in the checkpoint. A checkpoint recreated at the same place belongs to another query."""

    checkpoint: str
    query_id: str
    operator: str
    partition: int

    @property
    def shown(self) -> str:
        return f"operator {self.operator}, partition {self.partition} of query {self.query_id}"

    def files(self) -> tuple[Any, str]:
        files, folder = state_folder(self.checkpoint)
        return files, f"{folder}/{self.operator}/{self.partition}"

    def local_directory(self) -> Path:
        """Return the local directory, created if necessary. Copies are not synced, so they do not survive a reboot."""
        root = _root()
        query = root / _digest(self.checkpoint, self.query_id, _boot(), f"format {FORMAT}")
        if not query.is_dir():
            _remove_orphans(root)
            # Copies of format 1 had no format in their names.
            shutil.rmtree(root / _digest(self.checkpoint, self.query_id, _boot()), ignore_errors=True)
            query.mkdir(mode=0o700, exist_ok=True)
            (query / _ORIGIN).write_text(self.checkpoint)
        directory = query / self.operator / str(self.partition)
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        return directory


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def state_folder(checkpoint: str) -> tuple[Any, str]:
    from pyarrow import fs

    parts = urlsplit(checkpoint)
    if parts.scheme in ("", "file"):
        found, base = fs.LocalFileSystem(), os.path.abspath(parts.path if parts.scheme else checkpoint)
    else:
        # Hadoop's names for the same scheme.
        scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
        found, base = fs.FileSystem.from_uri(parts._replace(scheme=scheme).geturl())
    return found, f"{base.rstrip('/')}/{FOLDER}"


def fixed_partitions(checkpoint: str, wanted: int) -> int:
    """Return the number of partitions of a query's operators, which is the wanted number at its first start.

    The number never changes, even if topics get more partitions, because keys are spread over the partitions.
    """
    files, folder = state_folder(checkpoint)
    path = f"{folder}/partitions"
    try:
        with files.open_input_stream(path) as stream:
            content = stream.read()
    except FileNotFoundError:
        _refuse_sparks_state(files, folder)
        files.create_dir(folder, recursive=True)
        temporary = f"{path}.{uuid.uuid4().hex}.tmp"
        with files.open_output_stream(temporary) as stream:
            stream.write(str(wanted).encode())
        files.move(temporary, path)
        return wanted
    if not content.isdigit() or not int(content):
        raise StateError(
            f"{path} is damaged: it should contain the number of partitions, and contains {content[:20]!r}. "
            "Restore the file, or start the query with a new checkpoint."
        )
    return int(content)


def _refuse_sparks_state(files: Any, folder: str) -> None:
    """Refuse to begin with empty state where Spark has kept the state of the same query."""
    from pyarrow import fs

    checkpoint = folder.removesuffix(f"/{FOLDER}")
    if files.get_file_info(f"{checkpoint}/state").type is fs.FileType.Directory:
        raise StateError(
            f"The checkpoint {checkpoint} is of an earlier version, which kept this query's state in Spark. "
            "Drop the table and create it again, or start the query with a new checkpoint."
        )


def _root() -> Path:
    """Return a directory that belongs only to this user, so that others can neither read nor replace state."""
    base = os.environ.get(LOCAL_DIRECTORY) or tempfile.gettempdir()
    root = Path(base) / f"ottla-state-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        root.mkdir(mode=0o700, parents=True)
    found = root.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise StateError(
            f"{root} must be a directory that only this user can open (mode 0700). "
            f"Remove it, or set {LOCAL_DIRECTORY} to another directory."
        )
    return root


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _remove_orphans(root: Path) -> None:
    for each in root.iterdir():
        try:
            parts = urlsplit((each / _ORIGIN).read_text())
        except (OSError, ValueError):
            continue
        if parts.scheme in ("", "file") and not os.path.exists(parts.path):
            shutil.rmtree(each, ignore_errors=True)
