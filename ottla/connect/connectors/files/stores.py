"""File stores. A file appears completely or not at all, and writing it again replaces it."""

from __future__ import annotations

import os
import posixpath
import tempfile
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from ottla.connect.errors import ConnectError, RetriableError

_CONNECT_SECONDS = 5
_REQUEST_SECONDS = 60
_ATTEMPTS = 3


class Store(Protocol):
    def check(self) -> None:
        """Raises ConnectError if the store is not writable."""

    def write(self, path: str, content: bytes) -> None: ...


def open_store(settings: Mapping[str, Any]) -> Store:
    if settings.get("s3.bucket.name"):
        return _s3(settings)
    url: str = settings.get("store.url") or settings.get("hdfs.url") or ""
    parts = urlsplit(url)
    if parts.scheme in ("", "file"):
        return LocalStore(unquote(parts.path))
    if parts.scheme in ("hdfs", "viewfs", "s3", "gs", "abfs"):
        return _from_url(url)
    raise ConnectError(
        f"store.url {url!r} cannot be used. Files can be at file://, hdfs://, s3:// and gs://."
    )


class LocalStore:
    def __init__(self, root: str) -> None:
        self._root = root

    def check(self) -> None:
        try:
            os.makedirs(self._root, exist_ok=True)
            with tempfile.TemporaryFile(dir=self._root):
                pass
        except OSError as error:
            raise ConnectError(f"Cannot write to the directory {self._root}: {error.strerror}.") from None

    def write(self, path: str, content: bytes) -> None:
        target = os.path.join(self._root, *path.split("/"))
        directory = os.path.dirname(target)
        root = os.path.realpath(self._root)
        if os.path.commonpath((root, os.path.realpath(directory))) != root:
            # The path may contain a field value.
            raise ConnectError(f"Cannot write {target}: it is outside of {self._root}.")
        try:
            os.makedirs(directory, exist_ok=True)
            descriptor, temporary = tempfile.mkstemp(dir=directory, prefix=".", suffix=".tmp")
            try:
                with open(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, target)
            except BaseException:
                os.unlink(temporary)
                raise
            _sync_directory(directory)
        except OSError as error:
            raise RetriableError(f"Cannot write {target}: {error.strerror}.") from None


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class ArrowStore:
    """A pyarrow filesystem. Files are renamed into place if closing them does not publish them atomically."""

    def __init__(self, filesystem: Any, root: str, name: str, *, moves: bool) -> None:
        self._filesystem, self._root, self._name, self._moves = filesystem, root, name, moves

    def check(self) -> None:
        from pyarrow import fs

        try:
            [found] = self._filesystem.get_file_info([self._root])
        except OSError as error:
            name = self._name[0].upper() + self._name[1:]
            raise ConnectError(f"{name} cannot be used: {_reason(error)}") from None
        if found.type == fs.FileType.NotFound and not self._moves:
            raise ConnectError(f"Non-existent S3 bucket: {self._root}. Create it, or correct the setting.")

    def write(self, path: str, content: bytes) -> None:
        target = posixpath.join(self._root, path)
        written = posixpath.join(self._root, "+tmp", path) if self._moves else target
        try:
            if self._moves:
                self._filesystem.create_dir(posixpath.dirname(written), recursive=True)
                self._filesystem.create_dir(posixpath.dirname(target), recursive=True)
            with self._filesystem.open_output_stream(written) as file:
                file.write(content)
            if self._moves:
                self._filesystem.move(written, target)
        except OSError as error:
            raise RetriableError(f"Cannot write {path} to {self._name}: {_reason(error)}") from None


def _s3(settings: Mapping[str, Any]) -> Store:
    from pyarrow import fs

    options: dict[str, Any] = {
        "region": settings["s3.region"],
        "connect_timeout": _CONNECT_SECONDS,
        "request_timeout": _REQUEST_SECONDS,
        "retry_strategy": fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        "force_virtual_addressing": not settings["s3.path.style.access.enabled"],
    }
    if settings["store.url"]:
        parts = urlsplit(settings["store.url"])
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConnectError(
                f"store.url {settings['store.url']!r} is not an address such as https://host:9000."
            )
        options |= {"endpoint_override": parts.netloc, "scheme": parts.scheme}
    if settings["aws.access.key.id"]:
        options |= {
            "access_key": settings["aws.access.key.id"],
            "secret_key": settings["aws.secret.access.key"] or "",
        }
    bucket = settings["s3.bucket.name"]
    return ArrowStore(fs.S3FileSystem(**options), bucket, f"the S3 bucket {bucket}", moves=False)


def _from_url(url: str) -> Store:
    from pyarrow import fs

    try:
        filesystem, path = fs.FileSystem.from_uri(url)
    except (OSError, ValueError) as error:
        raise ConnectError(f"{url} cannot be used: {_reason(error)}") from None
    return ArrowStore(filesystem, path, url, moves=not url.startswith(("s3:", "gs:")))


def _reason(error: Exception) -> str:
    text = " ".join(str(error).split())
    for sign, sentence in _REASONS.items():
        if sign.lower() in text.lower():
            return sentence
    return text if text.endswith(".") else f"{text}."


_REASONS = {
    "INVALID_ACCESS_KEY_ID": "the access key is unknown. Check aws.access.key.id.",
    "InvalidAccessKeyId": "the access key is unknown. Check aws.access.key.id.",
    "SIGNATURE_DOES_NOT_MATCH": "the secret key is wrong. Check aws.secret.access.key.",
    "SignatureDoesNotMatch": "the secret key is wrong. Check aws.secret.access.key.",
    "ACCESS_DENIED": "access is denied. Check aws.access.key.id, aws.secret.access.key and their rights.",
    "HTTP response code: 403": "access is denied. Check aws.access.key.id, aws.secret.access.key and their rights.",
    "Couldn't connect": "nobody answers at its address. Check store.url and the network.",
    "NETWORK_CONNECTION": "nobody answers at its address. Check store.url and the network.",
    "Could not resolve host": "its host is unknown. Check store.url.",
    "NO_SUCH_BUCKET": "the bucket does not exist. Create it, or correct s3.bucket.name.",
    "libhdfs": "Hadoop's libhdfs was not found. Set HADOOP_HOME, or ARROW_LIBHDFS_DIR, and CLASSPATH.",
}
