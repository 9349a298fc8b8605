"""Back up a cluster to a directory or object store, and restore it with the same offsets.

Batches are copied as they are, control batches included, so that aborted transactions stay aborted. A restored topic
is written like a mirror topic and then promoted; the brokers forget its producers as soon as new ones write.

docs/how-to/back-up-a-cluster.md documents the format. The manifest of a run is written last. A run that was
interrupted leaves files without a manifest, and the next one adopts those whose checksums are right.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from ottla.cli.errors import JobError
from ottla.client.cluster import Cluster, Topic, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED, commit_offsets, list_offsets
from ottla.protocol.batch_header import BATCH_OVERHEAD, check_crc, read_header
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import (
    INTERNAL_TOPICS,
    MIRROR_LINK,
    MIRROR_PROMOTED,
    MIRROR_TOPIC_ID,
    PROMOTING,
)

VERSION = 1
LINK = "ottla-restore"
FILE_BYTES = 64 << 20
_FETCH_BYTES = 8 << 20
_APPEND_BYTES = 4 << 20
_SETTLE_SECONDS = 10.0
_OURS = "ottla.mirror."

Manifest = dict[str, Any]


class Store(Protocol):
    where: str

    def names(self, prefix: str) -> list[str]:
        """Return the complete files below a directory, sorted."""

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None:
        """Write a file completely or not at all."""


def open_store(place: str) -> Store:
    if "://" in place and not place.startswith("file://"):
        return _ObjectStore(place)
    return _Directory(Path(place.removeprefix("file://")))


class _Directory:
    def __init__(self, root: Path) -> None:
        self.where = str(root)
        self._root = root

    def names(self, prefix: str) -> list[str]:
        found = (self._root / prefix).glob("*")
        return sorted(f"{prefix}/{each.name}" for each in found if each.is_file() and each.suffix != ".part")

    def read(self, name: str) -> bytes:
        try:
            return (self._root / name).read_bytes()
        except OSError as error:
            raise JobError(f"{self._root / name} cannot be read: {error.strerror}.") from None

    def write(self, name: str, content: bytes) -> None:
        file = self._root / name
        part = file.with_name(file.name + ".part")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(content)
                out.flush()
                os.fsync(out.fileno())
            part.replace(file)
            directory = os.open(file.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            raise JobError(f"{file} cannot be written: {error.strerror}.") from None


class _ObjectStore:
    """S3 and the other stores of pyarrow, whose objects appear when they are complete."""

    def __init__(self, url: str) -> None:
        from pyarrow import fs

        self.where = url
        try:
            self._files, self._root = fs.FileSystem.from_uri(url)
        except (OSError, ValueError) as error:
            raise JobError(f"{url} cannot be used: {error}") from None
        self._fs = fs

    def names(self, prefix: str) -> list[str]:
        selector = self._fs.FileSelector(f"{self._root}/{prefix}", allow_not_found=True)
        found = self._asking(prefix, lambda: self._files.get_file_info(selector))
        return sorted(f"{prefix}/{each.base_name}" for each in found if each.is_file)

    def read(self, name: str) -> bytes:
        def read() -> bytes:
            with self._files.open_input_stream(f"{self._root}/{name}") as file:
                return bytes(file.read())

        return bytes(self._asking(name, read))

    def write(self, name: str, content: bytes) -> None:
        def write() -> None:
            self._files.create_dir(f"{self._root}/{name}".rpartition("/")[0], recursive=True)
            with self._files.open_output_stream(f"{self._root}/{name}") as file:
                file.write(content)

        self._asking(name, write)

    def _asking(self, name: str, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except OSError as error:
            raise JobError(f"{self.where}/{name} cannot be used: {str(error).splitlines()[0]}") from None


def newest_manifest(store: Store) -> Manifest | None:
    names = [name for name in store.names("manifests") if name.endswith(".json")]
    if not names:
        return None
    raw = store.read(names[-1])
    try:
        found = json.loads(raw)
        said = found.pop("sha256")
    except (ValueError, KeyError, AttributeError):
        raise JobError(f"{store.where}/{names[-1]} is damaged: it is not a manifest.") from None
    if found.get("version") != VERSION:
        raise JobError(
            f"{store.where} has format {found.get('version')}, but this ottla reads format {VERSION}. "
            "Use a newer ottla."
        )
    if said != _digest(_encoded(found)):
        raise JobError(f"{store.where}/{names[-1]} is damaged: its checksum differs.")
    found["number"] = int(names[-1].rpartition("/")[2].removesuffix(".json"))
    return dict(found)


def _encoded(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1, ensure_ascii=False).encode()


def _digest(content: bytes | memoryview) -> str:
    return hashlib.sha256(content).hexdigest()


# Backup


def back_up(cluster: Cluster, store: Store, tell: Callable[[str], None]) -> Manifest:
    """Copy everything since the last run and return the new manifest."""
    from ottla.cli.jobs.apply import Servers, export
    from ottla.cli.jobs.cluster_file import dump_cluster_file
    from ottla.client.admin.groups import committed_by_group, list_consumer_groups
    from ottla.client.admin.topics import describe_topics

    before = newest_manifest(store)
    cluster_id = cluster.metadata(()).cluster_id
    if before is not None and before["cluster_id"] != cluster_id:
        raise JobError(
            f"{store.where} holds the backup of another cluster ({before['cluster_id']}). Use another place."
        )
    settings = export(Servers(cluster))
    settings.pop("topics")
    topics = {name: topic for name, topic in cluster.topics().items() if name not in INTERNAL_TOPICS}
    described = {each.name: each for each in describe_topics(cluster, list(topics), with_configs=True)}
    # Offsets of groups first: they never point behind the records of this backup.
    groups = committed_by_group(cluster, [each.group for each in list_consumer_groups(cluster)])
    partitions = [each for topic in topics.values() for each in topic.partitions]
    starts, ends = _consistent_offsets(cluster, partitions)
    known = {} if before is None else {(each["name"], each["id"]): each for each in before["topics"]}
    copied = []
    for name, topic in sorted(topics.items()):
        topic_id = base64.urlsafe_b64encode(topic.topic_id).decode().rstrip("=")
        earlier = known.get((name, topic_id), {"partitions": []})["partitions"]
        parts = []
        for each in topic.partitions:
            files = earlier[each.partition]["files"] if each.partition < len(earlier) else []
            files = [file for file in files if file["end"] > starts[each]]
            parts.append(_copy(cluster, store, each, topic_id, starts[each], ends[each], files))
        copied.append(
            {
                "name": name,
                "id": topic_id,
                "replication": described[name].replication_factor,
                "configs": {
                    key: value for key, value in described[name].configs.items() if not key.startswith(_OURS)
                },
                "partitions": parts,
            }
        )
        tell(f"{name}: {sum(part['end'] - part['start'] for part in parts)} offsets")
    manifest: Manifest = {
        "version": VERSION,
        "cluster_id": cluster_id,
        "time_ms": time.time_ns() // 1_000_000,
        "topics": copied,
        "groups": {
            group: sorted(
                [topic, number, offset] for (topic, number), offset in offsets.items() if offset >= 0
            )
            for group, offsets in sorted(groups.items())
        },
        "settings": dump_cluster_file(settings),
    }
    number = 1 if before is None else before["number"] + 1
    store.write(
        f"manifests/{number:010d}.json", _encoded({**manifest, "sha256": _digest(_encoded(manifest))})
    )
    return {**manifest, "number": number}


def _consistent_offsets(
    cluster: Cluster, partitions: list[TopicPartition]
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Return log start offsets and last stable offsets, read while no transaction is between two of its markers."""
    from ottla.client.admin.transactions import list_transactions

    def is_ending() -> bool:
        try:
            return any(each.state.startswith("Prepare") for each in list_transactions(cluster))
        except ClientError:  # no right to see them, or too old a broker
            return False

    deadline = time.monotonic() + _SETTLE_SECONDS
    while True:
        busy = is_ending()
        if not busy:
            ends = list_offsets(cluster, dict.fromkeys(partitions, LATEST), READ_COMMITTED)
            busy = is_ending()
        if not busy:
            break
        if time.monotonic() > deadline:
            raise JobError("Transactions end all the time, so no consistent point was found. Try again.")
        time.sleep(0.02)
    starts = list_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    found = {each: starts[each].offset for each in partitions}
    return found, {each: max(ends[each].offset, found[each]) for each in partitions}


def _copy(
    cluster: Cluster,
    store: Store,
    partition: TopicPartition,
    topic_id: str,
    start: int,
    end: int,
    files: list[dict[str, Any]],
) -> dict[str, Any]:
    files = list(files)
    offset = max(start, files[-1]["end"] if files else start)
    prefix = f"records/{partition.topic}.{topic_id}/{partition.partition}"
    for name in store.names(prefix):  # of an interrupted run
        base, _, rest = name.rpartition("/")[2].partition("-")
        if int(base) == offset and int(rest.removesuffix(".log")) <= end:
            content = store.read(name)
            if _is_whole(content):
                offset = int(rest.removesuffix(".log"))
                files.append(_file(name, int(base), offset, content))
    kept = bytearray()
    first = offset

    def write() -> None:
        name = f"{prefix}/{first:020d}-{offset:020d}.log"
        store.write(name, bytes(kept))
        files.append(_file(name, first, offset, kept))
        kept.clear()

    options = FetchOptions(max_bytes=_FETCH_BYTES, isolation_level=READ_COMMITTED)
    fetcher = PartitionFetcher(cluster, partition, options)
    try:
        while offset < end:
            fetched = cluster.retrying(partial(fetcher.fetch, offset), [partition.topic])
            taken = 0
            for at, size, header in _batches(memoryview(fetched.records)):
                if header.base_offset >= end:
                    break
                kept += memoryview(fetched.records)[at : at + size]
                offset = header.next_offset
                taken += 1
                if len(kept) >= FILE_BYTES:
                    write()
                    first = offset
            if not taken:  # compaction emptied the end of the range
                break
    except ClientError as error:
        raise JobError(f"{error.message} Run the backup again: it continues where it stopped.") from None
    finally:
        fetcher.close()
    if kept:
        write()
    return {"start": start, "end": end, "files": files}


def _file(name: str, base: int, end: int, content: bytes | bytearray) -> dict[str, Any]:
    return {
        "name": name,
        "base": base,
        "end": end,
        "bytes": len(content),
        "sha256": _digest(memoryview(content)),
    }


def _batches(view: memoryview) -> Iterator[tuple[int, int, Any]]:
    at = 0
    while at + BATCH_OVERHEAD <= len(view):
        header = read_header(view, at)
        if at + header.size > len(view):
            return
        yield at, header.size, header
        at += header.size


def _is_whole(content: bytes) -> bool:
    """Return True if the file consists of batches whose checksums are right."""
    end = 0
    try:
        for at, size, header in _batches(memoryview(content)):
            if not check_crc(content, at, header):
                return False
            end = at + size
    except KafkaError:
        return False
    return end == len(content) > 0


def verify(store: Store) -> tuple[int, int]:
    """Compare every file with its checksum. Return the number of files and bytes."""
    manifest = newest_manifest(store)
    if manifest is None:
        raise JobError(f"{store.where} holds no finished backup.")
    count = size = 0
    for file in (
        each for topic in manifest["topics"] for part in topic["partitions"] for each in part["files"]
    ):
        size += len(_checked(store, file))
        count += 1
    return count, size


def _checked(store: Store, file: dict[str, Any]) -> bytes:
    content = store.read(file["name"])
    if len(content) != file["bytes"] or _digest(content) != file["sha256"]:
        raise JobError(f"{store.where}/{file['name']} is damaged: its checksum differs.")
    return content


# Restore


def restore(cluster: Cluster, store: Store, tell: Callable[[str], None]) -> Manifest:
    """Create the topics with their records, then group offsets and settings. An interrupted restore continues."""
    from ottla.cli.jobs.apply import Plan, Servers
    from ottla.cli.jobs.cluster_file import password_of, read_cluster_file
    from ottla.mirror.link.append import check_target
    from ottla.mirror.link.topics import own_configs

    check_target(cluster.any_connection())
    manifest = newest_manifest(store)
    if manifest is None:
        raise JobError(f"{store.where} holds no finished backup.")
    there = own_configs(cluster, [name for name in cluster.topics() if name not in INTERNAL_TOPICS])
    for topic in manifest["topics"]:
        configs = there.get(topic["name"])
        if configs is not None and not _is_restored(topic, configs):
            raise JobError(
                f"Topic '{topic['name']}' exists already and does not come from this backup. Restore into an empty "
                "cluster, or delete the topic first."
            )
    settings = read_cluster_file(None, manifest["settings"])
    settings.name = f"{store.where} (settings)"
    brokers = settings.sections.get("brokers", {})
    settings.sections["brokers"] = {name: each for name, each in brokers.items() if name == "default"}
    skipped = []
    for user in list(settings.sections.get("users", {})):
        try:
            password_of(settings, user)
        except JobError:
            skipped.append(user)
            del settings.sections["users"][user]
    plan = Plan(settings, Servers(cluster), prune=False)
    for topic in manifest["topics"]:
        promoted = there.get(topic["name"], {}).get(MIRROR_PROMOTED, PROMOTING)
        if promoted == PROMOTING:
            _restore_topic(cluster, store, topic, topic["name"] in there)
        tell(f"{topic['name']}: {sum(part['end'] - part['start'] for part in topic['partitions'])} offsets")
    for group, offsets in manifest["groups"].items():
        known = {each["name"]: len(each["partitions"]) for each in manifest["topics"]}
        wanted = {TopicPartition(name, n): offset for name, n, offset in offsets if n < known.get(name, 0)}
        if wanted:
            ends = list_offsets(cluster, dict.fromkeys(wanted, LATEST))
            commit_offsets(cluster, group, {each: min(at, ends[each].offset) for each, at in wanted.items()})
    for change in plan.changes:
        change.run()
    manifest["skipped_users"] = skipped
    return manifest


def _is_restored(topic: dict[str, Any], configs: dict[str, str]) -> bool:
    of_restore = configs.get(MIRROR_LINK) == LINK or configs.get(MIRROR_PROMOTED)
    return bool(of_restore) and configs.get(MIRROR_TOPIC_ID) == topic["id"]


def _restore_topic(cluster: Cluster, store: Store, topic: dict[str, Any], exists: bool) -> None:
    from ottla.client.admin.topics import create_topic
    from ottla.mirror.internal_topics import wait_for
    from ottla.mirror.link.promotion import promote

    name = topic["name"]
    if not exists:
        create_topic(
            cluster,
            name,
            partitions=len(topic["partitions"]),
            replication_factor=min(topic["replication"], len(cluster.nodes())),
            configs={**topic["configs"], MIRROR_LINK: LINK, MIRROR_TOPIC_ID: topic["id"]},
        )
    wait_for(cluster, name)
    for number, part in enumerate(topic["partitions"]):
        _restore_partition(cluster, store, TopicPartition(name, number), part)
    found: Topic = cluster.topics([name])[name]
    promote(None, cluster, LINK, found)


def _restore_partition(
    cluster: Cluster, store: Store, partition: TopicPartition, part: dict[str, Any]
) -> None:
    from ottla.mirror.link.append import check_appended, mirror_append

    def append(records: Any = b"", start: int = part["start"]) -> int:
        # The first batch may begin before the log start offset, so every request repeats it.
        def send() -> Any:
            answer = mirror_append(cluster, LINK, partition, records, start)
            check_appended(partition, answer)
            return answer

        return int(cluster.retrying(send, [partition.topic]).log_end_offset)

    end = append(start=-1)
    if end < part["start"]:
        end = append()
    for file in part["files"]:
        if file["end"] <= end:
            continue
        content = memoryview(_checked(store, file))
        first = last = 0
        for at, size, header in _batches(content):
            if header.next_offset <= end:
                first = last = at + size
                continue
            if at + size - first > _APPEND_BYTES and last > first:
                end = append(content[first:last])
                first = last
            last = at + size
        if last > first:
            end = append(content[first:last])
