"""The input directory: chooses the next file, and disposes of finished and failed files."""

from __future__ import annotations

import datetime as dt
import os
import re
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ottla.connect.connectors.spooldir.settings import directory_problem
from ottla.connect.errors import ConnectError


@dataclass(frozen=True)
class InputFile:
    """`name` is relative to input.path. Name, length and modification time identify a file."""

    name: str
    path: str
    length: int
    #: Milliseconds since 1970.
    modified: int


class Directory:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        self._settings = settings
        self._input: str = os.path.abspath(settings["input.path"])
        self._pattern = re.compile(settings["input.file.pattern"])
        self._policy: str = settings["cleanup.policy"]
        for name in needed_directories(settings):
            problem = directory_problem(name, settings[name])
            if problem is not None:
                raise ConnectError(problem)
        # Finished files that stay in place.
        self._passed_over: set[InputFile] = set()

    def next(self, besides: Sequence[InputFile] = ()) -> InputFile | None:
        done = self._passed_over.union(besides)
        found = [each for each in self._files() if each not in done]
        for attribute in reversed(self._settings["files.sort.attributes"]):
            found.sort(
                key=_SORT_KEYS[attribute.removesuffix("Asc").removesuffix("Desc")],
                reverse=attribute.endswith("Desc"),
            )
        return found[0] if found else None

    def _files(self) -> Iterator[InputFile]:
        oldest = time.time() * 1000 - self._settings["file.minimum.age.ms"]
        index, count = self._settings["task.index"], self._settings["task.count"]
        for path in self._paths():
            name = os.path.relpath(path, self._input)
            if not self._pattern.fullmatch(os.path.basename(name)):
                continue
            if count > 1 and zlib.crc32(name.encode()) % count != index:
                continue
            try:
                about = os.stat(path)
            except FileNotFoundError:
                continue
            modified = about.st_mtime_ns // 1_000_000
            if modified <= oldest:
                yield InputFile(name, path, about.st_size, modified)

    def _paths(self) -> Iterator[str]:
        if self._settings["input.path.walk.recursively"]:
            for where, _, names in os.walk(self._input):
                yield from (os.path.join(where, name) for name in names)
            return
        try:
            with os.scandir(self._input) as entries:
                yield from (entry.path for entry in entries if entry.is_file())
        except OSError as error:
            raise ConnectError(f"Cannot read the directory {self._input}: {error.strerror}.") from None

    def finished(self, file: InputFile) -> None:
        if self._policy == "DELETE":
            os.unlink(file.path)
        elif self._policy == "NONE":
            self._passed_over.add(file)
        else:
            place = self._settings["finished.path"]
            if self._policy == "MOVEBYDATE":
                place = os.path.join(
                    place, f"{dt.datetime.fromtimestamp(file.modified / 1000, dt.UTC):%Y-%m-%d}"
                )
            self._move(file, place)

    def failed(self, file: InputFile) -> str:
        """Move a failed file and return its new path."""
        return self._move(file, self._settings["error.path"])

    def _move(self, file: InputFile, directory: str) -> str:
        target = wanted = os.path.join(directory, file.name)
        number = 1
        # Keep files that were moved there before.
        while os.path.exists(target):
            target, number = f"{wanted}.{number}", number + 1
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(file.path, target)
        except OSError as error:
            raise ConnectError(f"Cannot move {file.path} to {target}: {error.strerror}.") from None
        return target


_SORT_KEYS: Mapping[str, Callable[[InputFile], Any]] = {
    "Name": lambda file: file.name,
    "Length": lambda file: file.length,
    "LastModified": lambda file: file.modified,
}


def needed_directories(settings: Mapping[str, Any]) -> list[str]:
    moves = settings["cleanup.policy"] in ("MOVE", "MOVEBYDATE")
    return ["input.path", "error.path", *(["finished.path"] if moves else [])]
