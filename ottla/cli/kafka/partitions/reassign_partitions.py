"""`kafka-reassign-partitions`"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.tool import repeated
from ottla.client.admin import reassignments
from ottla.client.admin.log_dirs import ReplicaKey, ReplicaPlace, move_replicas, places
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reassignments import (
    Assignment,
    clear_broker_throttles,
    clear_topic_throttles,
    moves_of,
    set_log_dir_throttle,
    set_throttle,
)
from ottla.client.admin.topics import describe_topics
from ottla.rebalancing import spread_replicas

# The JSON files of kafka-reassign-partitions, read and written as Kafka does.

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


# Log directories and throttles in kafka-reassign-partitions.

TIMEOUT_MS = 10_000


class TerseError(JobError):
    """Printed without the `Error: ` that Kafka's tool puts before all others."""


def in_order(replicas: Iterable[ReplicaKey]) -> list[ReplicaKey]:
    return sorted(replicas, key=lambda replica: (replica[2], replica[0], replica[1]))


def plural(several: Collection[object]) -> str:
    return "" if len(several) == 1 else "s"


def state_of(replica: ReplicaKey, target: str, place: ReplicaPlace | None) -> str:
    topic, number, broker = replica
    if place is None:
        return f"Partition {topic}-{number} cannot be found in any live log directory on broker {broker}."
    if place.current is None:
        return (
            f"Partition {topic}-{number} is not found in any live log dir on broker {broker}. There is likely an "
            "offline log directory on the broker."
        )
    if place.future == target:
        return f"Reassignment of replica {named(replica)} is still in progress."
    if place.future is not None:
        return (
            f"Partition {topic}-{number} on broker {broker} is being moved to log dir {place.future} instead of "
            f"{target}."
        )
    if place.current == target:
        return f"Reassignment of replica {named(replica)} completed successfully."
    return f"Partition {topic}-{number} on broker {broker} is not being moved from log dir {place.current} to {target}."


def start_moves(client: Client, wanted: Mapping[ReplicaKey, str], timeout_ms: int | None) -> None:
    """Ask until every broker has begun: one that gets a partition only now does not have the replica yet."""
    pending = dict(wanted)
    deadline = time.monotonic() + (TIMEOUT_MS if timeout_ms is None else timeout_ms) / 1000
    while pending:
        for topic, number, broker in in_order(move_replicas(client.cluster, pending)):
            path = pending.pop((topic, number, broker))
            print(
                f"Successfully started moving log directory to {path} for replica {topic}-{number} with broker "
                f"{broker} "
            )
        if pending and time.monotonic() >= deadline:
            names = ",".join(map(named, in_order(pending)))
            raise TerseError(
                f"Timed out before log directory move{plural(pending)} could be started for: {names}"
            )
        if pending:
            time.sleep(0.1)


def clear_throttles(client: Client, wanted: Wanted) -> None:
    brokers = sorted({*client.cluster.nodes(), *(broker for _, each in wanted.partitions for broker in each)})
    topics = sorted({topic for (topic, _), _ in wanted.partitions})
    print(f"Clearing broker-level throttles on broker{plural(brokers)} {','.join(map(str, brokers))}")
    clear_broker_throttles(client.cluster, brokers)
    print(f"Clearing topic-level throttles on topic{plural(topics)} {','.join(topics)}")
    clear_topic_throttles(client.cluster, topics)


# `kafka-reassign-partitions`

_ACTIONS = ("generate", "execute", "verify", "cancel", "list")
_FILE = "reassignment_json_file"
_REQUIRED = {
    "generate": ("topics_to_move_json_file", "broker_list"),
    "execute": (_FILE,),
    "verify": (_FILE,),
    "cancel": (_FILE,),
}
# Which options go with which action, beside those that reach the cluster.
_ALLOWED = {
    "topics_to_move_json_file": ("generate",),
    "broker_list": ("generate",),
    "disable_rack_aware": ("generate",),
    _FILE: ("execute", "verify", "cancel"),
    "additional": ("execute",),
    "throttle": ("execute",),
    "replica_alter_log_dirs_throttle": ("execute",),
    "disallow_replication_factor_change": ("execute",),
    "timeout": ("execute", "cancel"),
    "preserve_throttles": ("verify", "cancel"),
}
_EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
    "create a new partition assignment in addition to the existing one. The --additional flag can also be used "
    "to change the throttle by resubmitting the current reassignment."
)
_VERIFY_LATER = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
    "removed."
)


@tool.entry_point(prefix="Error: ", to_stdout=True)
def main(argv: list[str]) -> int | None:
    args = _parser().options(argv)
    every = ", ".join(f"--{action}" for action in _ACTIONS)
    action = tool.only_one(args, _ACTIONS, f"Command must include exactly one action: {every}")
    _check(args, action)
    client = tool.connect(args)
    try:
        actions = {
            "generate": _generate,
            "execute": _execute,
            "verify": _verify,
            "cancel": _cancel,
            "list": _list,
        }
        actions[action](client, args)
    except TerseError as error:
        print(error.message)
        return 1
    return 0


def _parser() -> tool.Parser:
    return tool.Parser(
        "kafka-reassign-partitions", "Move partitions between brokers and log directories.", """
        --bootstrap-server
        --zookeeper
        --command-config
        --bootstrap-controller
        --generate                       propose an assignment, without executing it
        --execute                        start the reassignment in --reassignment-json-file
        --verify                         show the progress, and remove throttles at the end
        --cancel                         cancel the reassignments in --reassignment-json-file
        --list                           list the ongoing reassignments
        --reassignment-json-file FILE    {"partitions": [{"topic": "foo", "partition": 1, "replicas": [1,2,3], \
"log_dirs": ["dir1","dir2","dir3"]}], "version": 1}
                                         log_dirs is optional; "any" lets the broker choose
        --topics-to-move-json-file FILE  {"topics": [{"topic": "foo"}], "version": 1}, for --generate
        --broker-list 0,1,2              brokers to move them to
        --disable-rack-aware             ignore racks in the proposal
        --throttle BYTES                 bytes per second between brokers
        --replica-alter-log-dirs-throttle BYTES  bytes per second between log directories
        --timeout MS                     time to wait for moves between log directories to start (10000)
        --additional                     allow further reassignments, or change the throttle of ongoing ones
        --preserve-throttles             keep the throttles of brokers and topics
        --disallow-replication-factor-change  refuse to add or remove replicas
        """,
        without_any="This tool helps to move topic partitions between replicas.",
    )  # fmt: skip


def _check(args: argparse.Namespace, action: str) -> None:
    if args.bootstrap_server and args.bootstrap_controller:
        raise tool.UsageError("Please don't specify both --bootstrap-server and --bootstrap-controller")
    args.bootstrap_server = args.bootstrap_server or args.bootstrap_controller
    if not args.bootstrap_server and not args.zookeeper:
        raise tool.UsageError("Please specify either --bootstrap-server or --bootstrap-controller")
    for name in _REQUIRED.get(action, ()):
        if getattr(args, name) is None:
            raise tool.missing(name.replace("_", "-"))
    for name, actions in _ALLOWED.items():
        if getattr(args, name) not in (None, False) and action not in actions:
            option = name.replace("_", "-")
            raise tool.UsageError(f'Option "[{option}]" can\'t be used with action "[{action}]"')


# -- actions -------------------------------------------------------------------------------------------


def _generate(client: Client, args: argparse.Namespace) -> None:
    brokers, topics = parse_broker_ids(args.broker_list), read_topics_to_move(args.topics_to_move_json_file)
    current = _current(client, topics)
    racks = _racks(client, brokers, args.disable_rack_aware)
    proposed = _proposal(current, racks)
    print(f"Current partition replica assignment\n{to_json(current, _log_dirs(client, topics))}\n")
    print(f"Proposed partition reassignment configuration\n{to_json(proposed, {})}")


def _execute(client: Client, args: argparse.Namespace) -> None:
    wanted = read_reassignment_to_execute(args.reassignment_json_file)
    ongoing = reassignments.list_reassignments(client.cluster)
    if ongoing and not args.additional:
        raise TerseError(_EXISTING)
    assignment = wanted.assignment
    known = client.cluster.nodes()
    for broker in sorted({broker for replicas in assignment.values() for broker in replicas}):
        if broker not in known:
            raise JobError(f"Unknown broker id {broker}")
    topics = sorted({topic for topic, _ in assignment})
    everything = _current(client, topics)
    missing = sorted(partition for partition in assignment if partition not in everything)
    if missing:
        raise JobError(f"Unable to find partition: {', '.join(map(named, missing))}")
    current = {partition: everything[partition] for partition in assignment}
    print(f"Current partition replica assignment\n\n{to_json(current, _log_dirs(client, topics))}\n")
    print("Save this to use as the --reassignment-json-file option during rollback")
    if args.throttle is not None or args.replica_alter_log_dirs_throttle is not None:
        print(_VERIFY_LATER)
    if args.throttle is not None:
        set_throttle(client.cluster, moves_of(ongoing, assignment, current), args.throttle)
        print(f"The inter-broker throttle limit was set to {args.throttle} B/s")
    if args.replica_alter_log_dirs_throttle is not None:
        rate = args.replica_alter_log_dirs_throttle
        set_log_dir_throttle(client.cluster, (broker for _, _, broker in wanted.log_dirs), rate)
        print(f"The replica-alter-dir throttle limit was set to {rate} B/s")
    refused = reassignments.reassign(
        client.cluster, assignment, may_change_replication_factor=not args.disallow_replication_factor_change
    )
    if refused:
        raise TerseError(f"Error reassigning partition(s):\n{_reasons(refused)}")
    print(f"Successfully started partition reassignment{plural(assignment)} for {_names(assignment)}")
    start_moves(client, wanted.log_dirs, args.timeout)


def _verify(client: Client, args: argparse.Namespace) -> None:
    wanted = read_reassignment(args.reassignment_json_file)
    ongoing = reassignments.list_reassignments(client.cluster)
    current = _current(client, sorted({topic for topic, _ in wanted.assignment}), missing_is_fine=True)
    print("Status of partition reassignment:")
    for partition, replicas in sorted(wanted.partitions):
        now = current.get(partition, [])
        if partition in ongoing:
            print(f"Reassignment of partition {named(partition)} is still in progress.")
        elif now == replicas:
            print(f"Reassignment of partition {named(partition)} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {named(partition)}, but replica set is "
                f"{','.join(map(str, now))} rather than {','.join(map(str, replicas))}."
            )
    places = _places(client, wanted.log_dirs)
    lines = [
        state_of(replica, wanted.log_dirs[replica], places.get(replica))
        for replica in in_order(wanted.log_dirs)
    ]
    print("\n".join(lines))
    moving = any(place.future for replica, place in places.items() if replica in wanted.log_dirs)
    if not ongoing and not moving and not args.preserve_throttles:
        clear_throttles(client, wanted)


def _cancel(client: Client, args: argparse.Namespace) -> None:
    wanted = read_reassignment(args.reassignment_json_file)
    ongoing = reassignments.list_reassignments(client.cluster)
    stopped: dict[Partition, None] = {
        partition: None for partition, _ in wanted.partitions if partition in ongoing
    }
    if stopped:
        refused = reassignments.reassign(client.cluster, stopped)
        if refused:
            raise TerseError(
                f"Error cancelling partition reassignment{plural(refused)} for:\n{_reasons(refused)}"
            )
        print(f"Successfully cancelled partition reassignment{plural(stopped)} for: {_names(stopped)}")
    else:
        print("None of the specified partition reassignments are active.")
    places = _places(client, wanted.log_dirs)
    # To stop a move, ask for a move to where the replica is.
    back = {
        replica: place.current
        for replica, place in places.items()
        if replica in wanted.log_dirs and place.future and place.current
    }
    if back:
        start_moves(client, back, args.timeout)
    else:
        print("None of the specified partition moves are active.")
    if not args.preserve_throttles:
        clear_throttles(client, wanted)


def _list(client: Client, _args: argparse.Namespace) -> None:
    ongoing = reassignments.list_reassignments(client.cluster)
    if not ongoing:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition, each in sorted(ongoing.items()):
        adding = f" adding: {','.join(map(str, each.adding))}." if each.adding else ""
        removing = f" removing: {','.join(map(str, each.removing))}." if each.removing else ""
        print(f"{named(partition)}: replicas: {','.join(map(str, each.replicas))}.{adding}{removing}")


# -- current state -------------------------------------------------------------------------------------


def _current(client: Client, topics: list[str], *, missing_is_fine: bool = False) -> Assignment:
    described = {topic.name: topic for topic in describe_topics(client.cluster, topics, skip_missing=True)}
    for topic in topics:
        if topic not in described and not missing_is_fine:
            raise JobError(f"Topic {topic} not found.")
    return {
        (topic.name, partition.partition): partition.replicas
        for topic in described.values()
        for partition in topic.partitions
    }


def _places(client: Client, replicas: Iterable[ReplicaKey]) -> dict[ReplicaKey, ReplicaPlace]:
    return places(client.cluster, sorted({topic for topic, _, _ in replicas}))


def _log_dirs(client: Client, topics: list[str]) -> dict[ReplicaKey, str]:
    return {
        replica: place.current for replica, place in places(client.cluster, topics).items() if place.current
    }


def _racks(client: Client, brokers: list[int], disable_rack_aware: bool) -> dict[int, str | None]:
    nodes = client.cluster.nodes()
    racks = {broker: nodes[broker].rack for broker in brokers if broker in nodes}
    if disable_rack_aware:
        return dict.fromkeys(racks)
    if None in racks.values() and any(racks.values()):
        raise JobError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line to make replica "
            "assignment without rack information."
        )
    return racks


def _proposal(current: Assignment, racks: dict[int, str | None]) -> Assignment:
    proposed: Assignment = {}
    for topic in sorted({topic for topic, _ in current}):
        partitions = sorted(number for name, number in current if name == topic)
        factor = len(current[topic, partitions[0]])
        if factor > len(racks):
            raise JobError(f"Replication factor: {factor} larger than available brokers: {len(racks)}.")
        spread = spread_replicas(
            racks,
            len(partitions),
            factor,
            start_index=random.randrange(len(racks)),
            shift=random.randrange(len(racks)),
        )
        proposed |= {(topic, number): list(replicas) for number, replicas in spread.items()}
    return proposed


def _reasons(refused: Mapping[Partition, str]) -> str:
    return "\n".join(f"{named(partition)}: {reason}" for partition, reason in sorted(refused.items()))


def _names(partitions: Iterable[Partition]) -> str:
    return ",".join(map(named, sorted(partitions)))
