"""State files under the checkpoint: the changes of each batch, and snapshots.

Invariant: the files can restore the committed version and the version before it. `tidy` deletes all other files.

A file `000000000016-000000000031.delta` has the keys changed in these batches, with their values after batch 31;
`000000000031.snapshot` has all keys. Sixteen deltas are merged into one, which limits the number of files. A snapshot
is due when the deltas since the last one have outgrown it. So the cost of a batch depends on the number of its changes,
not on the size of the state.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ottla.spark.state import change_files
from ottla.spark.state.change_files import FORMAT, DamagedFile, Entry, NewerFormat
from ottla.spark.state.places import StateError, StatePlace

_FAN = 16
_SMALLEST_SNAPSHOT = 1 << 20
_NAME = re.compile(r"(?:(\d{12})-)?(\d{12})\.(delta|snapshot)")
#: Other attempts of the same task may delete files while they are read.
_ATTEMPTS = 5


@dataclass(frozen=True)
class StateFile:
    path: str
    first: int  # 0 for a snapshot
    last: int
    size: int
    is_snapshot: bool

    @property
    def level(self) -> int:
        level, span = 0, self.last - self.first + 1
        while span >= _FAN:
            level, span = level + 1, span // _FAN
        return level


class _OldFormat(Exception):
    """Files of an older format cannot be merged with newer ones: their keys differ."""


class History:
    """Owner: the task of the partition. Two attempts of one task write the same files."""

    def __init__(self, place: StatePlace) -> None:
        self._place = place
        self._files, self._folder = place.files()

    # Writing

    def write(self, version: int, changes: Iterable[Entry]) -> None:
        if version == 0:
            self._files.create_dir(self._folder, recursive=True)
        change_files.write(self._files, self._delta(version, version), changes)

    def snapshot(self, version: int, everything: Iterator[Entry]) -> None:
        change_files.write(self._files, f"{self._folder}/{version:012d}.snapshot", everything)

    def tidy(self, version: int, everything: Callable[[], Iterator[Entry]]) -> None:
        """Merge and delete files occasionally after a commit. `everything` yields the state of that version."""
        if version % _FAN:
            return
        files = self._listed()
        base = self._base(files, version)
        deltas = [each for each in files if not each.is_snapshot and each.last > (base.last if base else -1)]
        if sum(each.size for each in deltas) > max(_SMALLEST_SNAPSHOT, base.size if base else 0):
            self.snapshot(version, everything())
        else:
            try:
                self._merge([each for each in deltas if each.last < version])
            except _OldFormat:
                self.snapshot(version, everything())
            except (DamagedFile, NewerFormat, FileNotFoundError):
                pass  # Another attempt may have merged and deleted the files. Restoring reports a damaged one.
        self._clean(version)

    def _merge(self, deltas: list[StateFile]) -> None:
        for level in range(12):
            same = [each for each in deltas if each.level == level]
            if len(same) < _FAN:
                return
            merged: dict[bytes, bytes | None] = {}
            for each in same:
                with change_files.opened(self._files, each.path) as (number, entries):
                    if number < FORMAT:
                        raise _OldFormat
                    merged.update(entries)
            first, last = same[0].first, same[-1].last
            path = self._delta(first, last)
            change_files.write(self._files, path, sorted(merged.items()))
            size = self._files.get_file_info(path).size
            deltas = [
                *(each for each in deltas if each not in same),
                StateFile(path, first, last, size, False),
            ]
            deltas.sort(key=lambda each: each.first)

    def _clean(self, version: int) -> None:
        files = self._listed()
        needed = {each.path for wanted in (version - 1, version) for each in self._chain(files, wanted) or ()}
        if not needed:
            return
        for each in files:
            # Keep the deltas of this version: a new snapshot must not be the only way to it yet.
            if each.path not in needed and each.last < version:
                with contextlib.suppress(FileNotFoundError):
                    self._files.delete_file(each.path)

    def _delta(self, first: int, last: int) -> str:
        return f"{self._folder}/{first:012d}-{last:012d}.delta"

    # Reading

    def restore(
        self, version: int, begin: Callable[[], None], apply: Callable[[int, Iterator[Entry]], None]
    ) -> None:
        """Pass the format and the entries of each file of a version to `apply`. `begin` drops earlier entries."""
        begin()
        if version < 0:
            return
        damaged: set[str] = set()
        for _ in range(_ATTEMPTS):
            files = [each for each in self._listed() if each.path not in damaged]
            chain = self._chain(files, version)
            if chain is None:
                break
            begin()
            for each in chain:
                try:
                    with change_files.opened(self._files, each.path) as (number, entries):
                        apply(number, entries)
                except NewerFormat as error:
                    raise StateError(
                        f"The state of {self._place.shown} cannot be restored: {error}. Update Ottla."
                    ) from None
                except DamagedFile:
                    damaged.add(each.path)
                    break
                except FileNotFoundError:
                    break
            else:
                return
        why = f"{', '.join(sorted(damaged))} is damaged" if damaged else "files are missing"
        raise StateError(
            f"The state of {self._place.shown} after batch {version} cannot be restored from {self._folder}: {why}. "
            "Bring the files of the checkpoint back, or start the query with a new one."
        )

    def _chain(self, files: list[StateFile], version: int) -> list[StateFile] | None:
        """Return a snapshot and deltas that together restore a version, or None."""
        bases: list[StateFile | None] = [
            each for each in reversed(files) if each.is_snapshot and each.last <= version
        ]
        for base in [*bases, None]:
            chain = [] if base is None else [base]
            at = -1 if base is None else base.last
            while at < version:
                # A delta may begin earlier, because it has the values after its last batch.
                fitting = [
                    each
                    for each in files
                    if not each.is_snapshot and each.first <= at + 1 <= each.last <= version
                ]
                if not fitting:
                    break
                chain.append(max(fitting, key=lambda each: each.last))
                at = chain[-1].last
            else:
                return chain
        return None

    def _base(self, files: list[StateFile], version: int) -> StateFile | None:
        return next((each for each in reversed(files) if each.is_snapshot and each.last <= version), None)

    def _listed(self) -> list[StateFile]:
        from pyarrow import fs

        found = []
        for info in self._files.get_file_info(fs.FileSelector(self._folder, allow_not_found=True)):
            named = _NAME.fullmatch(info.base_name)
            if named is not None:
                first, last, kind = named.groups()
                found.append(
                    StateFile(info.path, int(first or 0), int(last), info.size or 0, kind == "snapshot")
                )
        return sorted(found, key=lambda each: (each.last, each.is_snapshot, each.first))
