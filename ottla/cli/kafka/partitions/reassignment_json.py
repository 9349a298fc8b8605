"""The JSON files of kafka-reassign-partitions, read and written as Kafka does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.cli.errors import JobError
from ottla.cli.kafka.tool import repeated
from ottla.client.admin.log_dirs import ReplicaKey
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reassignments import Assignment

ANY_LOG_DIR = "any"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Reassignment in a file. A partition may appear twice: only --execute refuses that."""

    partitions: list[tuple[Partition, list[int]]]
    log_dirs: dict[ReplicaKey, str]

    @property
    def assignment(self) -> Assignment:
        return dict(self.partitions)


def read_reassignment(path: Path) -> Wanted:
    partitions: list[tuple[Partition, list[int]]] = []
    log_dirs: dict[ReplicaKey, str] = {}
    for entry in _entries(path, "partitions"):
        try:
            partition = (_text(entry["topic"]), _whole(entry["partition"]))
            replicas = [_whole(broker) for broker in entry["replicas"]]
            directories = [_text(name) for name in entry.get("log_dirs") or ()]
        except (KeyError, TypeError, AttributeError):
            raise JobError(
                f"Each of the partitions in {path} needs topic, partition and replicas, "
                f'like {{"topic": "foo", "partition": 1, "replicas": [1, 2]}}, unlike {json.dumps(entry)}.'
            ) from None
        if directories and len(directories) != len(replicas):
            raise JobError(
                f"Size of replicas list {replicas} is different from size of log dirs list "
                f"[{', '.join(directories)}] for partition {named(partition)}"
            )
        partitions.append((partition, replicas))
        for broker, directory in zip(replicas, directories, strict=False):
            if directory != ANY_LOG_DIR:
                log_dirs[(*partition, broker)] = directory
    return Wanted(partitions, log_dirs)


def read_reassignment_to_execute(path: Path) -> Wanted:
    """As `read_reassignment`; nothing may be empty or appear twice."""
    wanted = read_reassignment(path)
    if not wanted.partitions:
        raise JobError("Partition reassignment list cannot be empty")
    if not all(replicas for _, replicas in wanted.partitions):
        raise JobError("Partition replica list cannot be empty")
    twice = repeated([named(partition) for partition, _ in wanted.partitions])
    if twice:
        raise JobError(f"Partition reassignment contains duplicate topic partitions: {','.join(twice)}")
    in_lists = [
        f"{named(partition)} contains multiple entries for {','.join(brokers)}"
        for partition, replicas in wanted.partitions
        if (brokers := repeated(list(map(str, replicas))))
    ]
    if in_lists:
        raise JobError(f"Partition replica lists may not contain duplicate entries: {'. '.join(in_lists)}")
    return wanted


def read_topics_to_move(path: Path) -> list[str]:
    try:
        topics = [_text(entry["topic"]) for entry in _entries(path, "topics")]
    except (KeyError, TypeError):
        raise JobError(
            f'{path} is not of the form {{"topics": [{{"topic": "foo"}}], "version": 1}}.'
        ) from None
    twice = repeated(topics)
    if twice:
        raise JobError(f"List of topics to reassign contains duplicate entries: [{', '.join(twice)}]")
    return topics


def to_json(assignment: Mapping[Partition, list[int]], log_dirs: Mapping[ReplicaKey, str]) -> str:
    """An assignment as such a file; `any` where the log directory does not matter."""
    partitions = [
        {
            "topic": topic,
            "partition": number,
            "replicas": replicas,
            "log_dirs": [log_dirs.get((topic, number, broker), ANY_LOG_DIR) for broker in replicas],
        }
        for (topic, number), replicas in sorted(assignment.items())
    ]
    return json.dumps({"version": 1, "partitions": partitions}, separators=(",", ":"), ensure_ascii=False)


def named(partition: Partition | ReplicaKey) -> str:
    return "-".join(map(str, partition))


def parse_broker_ids(text: str) -> list[int]:
    try:
        brokers = [int(number) for number in text.split(",")]
    except ValueError:
        raise JobError(f"'{text}' is not a list of broker ids: write --broker-list 0,1,2.") from None
    twice = repeated(list(map(str, brokers)))
    if twice:
        raise JobError(f"Broker list contains duplicate entries: [{', '.join(twice)}]")
    return brokers


def _entries(path: Path, name: str) -> list[Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise JobError(f"Unable to read file {path}") from None
    except json.JSONDecodeError as error:
        raise JobError(
            f"{path} is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        ) from None
    except ValueError:
        raise JobError(f"{path} is not valid JSON: it is not UTF-8 text.") from None
    if not isinstance(document, dict):
        raise JobError(f'{path} is not of the form {{"{name}": […], "version": 1}}.')
    if document.get("version", 1) != 1:
        raise JobError(f"Not supported version field value {document['version']}")
    entries = document.get(name, [])
    if not isinstance(entries, list):
        raise JobError(f'{path} is not of the form {{"{name}": […], "version": 1}}.')
    return entries


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError
    return value
