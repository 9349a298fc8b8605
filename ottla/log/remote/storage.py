"""Stores for the objects of remote segments: a directory, or an object store through pyarrow. All calls block."""

from __future__ import annotations

import errno
import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from ottla.log.files.checkpoint import sync_path

_COPY_BYTES = 8 * 1024 * 1024


class RemoteStorageError(Exception):
    """The store could not be reached or refused the request. The message is for an operator."""


class ObjectNotFound(RemoteStorageError):
    """The store has no such object."""


class RemoteStorage(Protocol):
    """An object appears complete or not at all. Methods raise RemoteStorageError."""

    def put(self, key: str, data: bytes) -> None: ...

    def put_file(self, key: str, path: str, size: int) -> None:
        """Store the first `size` bytes of a file."""

    def get(self, key: str, position: int, size: int) -> bytes:
        """Return at most `size` bytes from `position`."""

    def delete(self, key: str) -> None:
        """Delete an object, if it exists."""


def open_storage(uri: str) -> RemoteStorage:
    """Open `file:///directory` or, with pyarrow, `s3://bucket/prefix?region=…&endpoint_override=…` and the like.

    Raises RemoteStorageError for a URI that cannot be used.
    """
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        if not parts.path.startswith("/") or parts.netloc not in ("", "localhost"):
            raise RemoteStorageError(f"{uri} does not name a directory: use file:///path/of/the/directory")
        return DirectoryStorage(parts.path)
    if not parts.netloc:
        raise RemoteStorageError(f"{uri} cannot be used: it names no bucket")
    try:
        from pyarrow import fs
    except ImportError:
        raise RemoteStorageError(
            f"{parts.scheme}:// needs pyarrow: install it with `pip install 'ottla[tiered]'`"
        ) from None
    try:
        filesystem, prefix = fs.FileSystem.from_uri(uri)
    except (ValueError, OSError) as error:
        raise RemoteStorageError(f"{_without_secrets(uri)} cannot be used: {error}") from None
    return ArrowStorage(filesystem, prefix, _without_secrets(uri))


def _without_secrets(uri: str) -> str:
    parts = urlsplit(uri)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()


class DirectoryStorage:
    """A directory of the machine, or of a file server that all brokers mount."""

    def __init__(self, root: str) -> None:
        self._root = Path(root)

    def __str__(self) -> str:
        return str(self._root)

    def put(self, key: str, data: bytes) -> None:
        self._put(key, data)

    def put_file(self, key: str, path: str, size: int) -> None:
        try:
            source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise RemoteStorageError(f"cannot read {path}: {error.strerror or error}") from error
        try:
            self._put(key, b"", source, size)
        finally:
            os.close(source)

    def _put(self, key: str, data: bytes, source: int = -1, size: int = 0) -> None:
        path = self._root / key
        temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with open(temporary, "wb") as file:
                    file.write(data)
                    done = 0
                    while done < size:
                        piece = os.pread(source, min(_COPY_BYTES, size - done), done)
                        if not piece:
                            raise OSError(errno.EIO, "the segment ended early")
                        file.write(piece)
                        done += len(piece)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    temporary.unlink()
                raise
            sync_path(str(path.parent))
        except OSError as error:
            raise RemoteStorageError(f"cannot write {path}: {error.strerror or error}") from error

    def get(self, key: str, position: int, size: int) -> bytes:
        path = self._root / key
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(fd, size, position)
            finally:
                os.close(fd)
        except FileNotFoundError:
            raise ObjectNotFound(f"{path} does not exist") from None
        except OSError as error:
            raise RemoteStorageError(f"cannot read {path}: {error.strerror or error}") from error

    def delete(self, key: str) -> None:
        path = self._root / key
        try:
            path.unlink(missing_ok=True)
            # Leave no empty directories behind a deleted topic.
            for parent in list(path.parents)[:2]:
                if parent != self._root:
                    parent.rmdir()
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise RemoteStorageError(f"cannot delete {path}: {error.strerror or error}") from error


class ArrowStorage:
    """An object store that pyarrow reaches: S3 and its relatives, Google's and Azure's."""

    def __init__(self, filesystem: Any, prefix: str, name: str) -> None:
        self._filesystem = filesystem
        self._prefix = prefix.rstrip("/")
        self._name = name

    def __str__(self) -> str:
        return self._name

    def _path(self, key: str) -> str:
        return f"{self._prefix}/{key}" if self._prefix else key

    def put(self, key: str, data: bytes) -> None:
        try:
            with self._filesystem.open_output_stream(self._path(key)) as stream:
                stream.write(data)
        except OSError as error:
            raise self._error("write", key, error) from error

    def put_file(self, key: str, path: str, size: int) -> None:
        """Upload in parts. Closing the stream makes the object; without it, the parts are discarded."""
        import mmap

        try:
            if not size:
                self.put(key, b"")
                return
            with (
                open(path, "rb") as file,
                mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) as source,
                memoryview(source) as view,
                self._filesystem.open_output_stream(self._path(key)) as stream,
            ):
                # The mapping is complete before the first byte is sent, so only the store can fail here.
                for position in range(0, size, _COPY_BYTES):
                    stream.write(bytes(view[position : position + _COPY_BYTES]))
        except (OSError, ValueError) as error:
            raise self._error("write", key, error) from error

    def get(self, key: str, position: int, size: int) -> bytes:
        try:
            with self._filesystem.open_input_file(self._path(key)) as file:
                size = min(size, max(0, file.size() - position))
                data: bytes = file.read_at(size, position)
                return data
        except FileNotFoundError:
            raise ObjectNotFound(f"{self._name} has no object {key}") from None
        except OSError as error:
            raise self._error("read", key, error) from error

    def delete(self, key: str) -> None:
        try:
            self._filesystem.delete_file(self._path(key))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise self._error("delete", key, error) from error

    def _error(self, action: str, key: str, error: Exception) -> RemoteStorageError:
        reason = str(error).replace("\n", " ").strip()
        return RemoteStorageError(f"cannot {action} {key} in {self._name}: {reason}")
