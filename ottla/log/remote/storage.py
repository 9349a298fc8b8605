"""Stores for the objects of remote segments: a directory, or an object store through obstore. All calls block."""

from __future__ import annotations

import errno
import os
import re
import uuid
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from ottla.log.files.checkpoint import sync_path

_COPY_BYTES = 8 * 1024 * 1024
_SECRET = re.compile("secret|token|access_?key|account_?key|sas_|password|credential", re.IGNORECASE)
# Indexes and manifests are read whole, log segments in smaller ranges.
_RANGE_BYTES = 15 * 1024 * 1024
# The next round tries again; clients do not wait longer for a read either.
_RETRIES = 3
_RETRY_SECONDS = 20


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
    """Open `file:///directory` or, with obstore, `s3://bucket/prefix?region=…&endpoint=…`, `gs://…` or `az://…`.

    Raises RemoteStorageError for a URI that cannot be used.
    """
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        if not parts.path.startswith("/") or parts.netloc not in ("", "localhost"):
            raise RemoteStorageError(f"{uri} does not name a directory: use file:///path/of/the/directory")
        return DirectoryStorage(parts.path)
    bare = parts._replace(query="").geturl()
    if not parts.netloc or "@" in parts.netloc:
        raise RemoteStorageError(f"{parts.scheme}://… cannot be used: it needs a bucket, without credentials")
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise RemoteStorageError(
            f"{parts.scheme}:// needs obstore: install it with `pip install 'ottla[tiered]'`"
        ) from None
    options = dict(parse_qsl(parts.query))
    if secret := next((name for name in options if _SECRET.search(name)), None):
        # Every client with the right to describe the broker's settings sees the URI.
        raise RemoteStorageError(
            f"{bare} cannot be used with {secret}: give credentials in the broker's environment"
        )
    client_options: Any = {"timeout": "60s", "connect_timeout": "10s"}
    if options.get("endpoint", "").startswith("http://"):
        client_options["allow_http"] = True
    try:
        retries: Any = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
        store = from_url(bare, config=options, client_options=client_options, retry_config=retries)  # type: ignore[call-overload]
    except (BaseError, ValueError, TypeError) as error:
        raise RemoteStorageError(f"{bare} cannot be used: {_first_line(error)}") from None
    return ObjectStorage(store, bare)


def _first_line(error: Exception) -> str:
    """Return the message of obstore without the dump of the error that follows it."""
    return " ".join(str(error).partition("\n\n")[0].split())


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


class ObjectStorage:
    """An object store that obstore reaches: S3 and its relatives, Google's and Azure's.

    obstore uploads large files in parts, and aborts the upload if a part fails.
    """

    def __init__(self, store: Any, name: str) -> None:
        from obstore.exceptions import BaseError

        self._store = store
        self._name = name
        self._errors = (BaseError, OSError)

    def __str__(self) -> str:
        return self._name

    def put(self, key: str, data: bytes) -> None:
        import obstore

        try:
            obstore.put(self._store, key, data)
        except self._errors as error:
            raise self._error("write", key, error) from error

    def put_file(self, key: str, path: str, size: int) -> None:
        import obstore

        try:
            if os.stat(path).st_size != size:
                raise OSError(errno.EIO, f"{path} has not the {size} bytes that were expected")
            obstore.put(self._store, key, Path(path))
        except self._errors as error:
            raise self._error("write", key, error) from error

    def get(self, key: str, position: int, size: int) -> bytes:
        import obstore

        try:
            if not position and size > _RANGE_BYTES:
                return bytes(obstore.get(self._store, key).bytes())
            return bytes(obstore.get_range(self._store, key, start=position, length=size))
        except FileNotFoundError:
            raise ObjectNotFound(f"{self._name} has no object {key}") from None
        except self._errors as error:
            raise self._error("read", key, error) from error

    def delete(self, key: str) -> None:
        import obstore

        try:
            obstore.delete(self._store, key)
        except FileNotFoundError:
            pass
        except self._errors as error:
            raise self._error("delete", key, error) from error

    def _error(self, action: str, key: str, error: Exception) -> RemoteStorageError:
        return RemoteStorageError(f"cannot {action} {key} in {self._name}: {_first_line(error)}")
