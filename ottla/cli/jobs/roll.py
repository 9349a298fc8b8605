"""A rolling restart: one broker at a time, each only while all replicas are in sync."""

from __future__ import annotations

import shlex
import string
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ottla.cli.client import Client
from ottla.cli.errors import BrokerUnreachable, JobError
from ottla.cli.jobs.rebalance import ClusterNow, elect_preferred, look
from ottla.client.admin.configs import Resource, describe_many
from ottla.client.admin.offsets import Partition
from ottla.client.cluster import Node
from ottla.client.connection import Connection
from ottla.client.settings import Settings
from ottla.protocol.messages.cluster import MetadataRequest, MetadataResponse

_POLL = 0.2
_PING = MetadataRequest(topics=[], allow_auto_topic_creation=False)
_NAMED = 3
_PLACEHOLDERS = ("broker", "host", "port")


@dataclass(frozen=True, slots=True)
class RollPlan:
    """The brokers in the order of their restarts: the controller last, because its role moves only once then."""

    brokers: list[Node]
    controller: int


class Roll:
    """Restarts brokers by a command of the operator. Raises JobError with one sentence at the first problem.

    A broker has restarted when a connection from before the command has ended and the broker answers again. This also
    works with commands that return before the restart, and with Apache Kafka.
    """

    def __init__(
        self, client: Client, command: str, *, timeout: float, say: Callable[[str], None], force: bool = False
    ) -> None:
        check_template(command)
        self._client = client
        self._command = command
        self._timeout = timeout
        self._say = say
        self._force = force
        self._expected: set[int] = set()

    def plan(self, wanted: Sequence[int]) -> RollPlan:
        cluster = self._client.cluster
        nodes = cluster.nodes()
        for broker in wanted:
            if broker not in nodes:
                raise JobError(f"Broker {broker} does not run: start it first, or leave it out.")
        controller = cluster.metadata(()).controller_id
        chosen = [nodes[each] for each in (wanted or sorted(nodes))]
        if not wanted:
            chosen.sort(key=lambda node: node.id == controller)
        return RollPlan(chosen, controller)

    def check(self, plan: RollPlan) -> None:
        """Raise JobError if a restart would make a partition unavailable."""
        now = self._look()
        problem = lag(now) or (None if self._force else self._unavailable(plan, now))
        if problem is not None:
            raise JobError(f"Nothing was restarted: {problem}")

    def _unavailable(self, plan: RollPlan, now: ClusterNow) -> str | None:
        rolled = {node.id for node in plan.brokers}
        held = {name: each for name, each in now.partitions.items() if rolled & set(each.replicas)}
        alone = sorted(name for name, each in held.items() if len(each.replicas) == 1)
        if alone:
            return (
                f"{_names(alone)} would be unavailable, with a single replica. Add replicas, or pass --force."
            )
        topics = sorted({topic for topic, _ in held})
        described = describe_many(self._client.cluster, [Resource("topic", topic) for topic in topics])
        least = {
            resource.name: int(entry.value or 1)
            for resource, entries in described.items()
            for entry in entries
            if entry.name == "min.insync.replicas"
        }
        refusing = sorted(
            name for name, each in held.items() if len(each.replicas) - 1 < least.get(name[0], 1)
        )
        if refusing:
            return (
                f"{_names(refusing)} would refuse producers with acks=all, because min.insync.replicas needs every "
                "replica. Lower it, or pass --force."
            )
        return None

    def run(self, plan: RollPlan) -> None:
        self._expected = set(self._client.cluster.nodes())
        for place, node in enumerate(plan.brokers, 1):
            self._say(f"Broker {node.id} ({place} of {len(plan.brokers)}) restarts.")
            began = time.monotonic()
            self._wait_in_sync(f"Broker {node.id} was not restarted")
            self._restart(node)
            self._wait_in_sync(f"Broker {node.id} has restarted")
            self._say(f"Broker {node.id} is back and in sync after {time.monotonic() - began:.1f} s.")

    def elect_preferred(self) -> None:
        """Give each broker the leadership back that it handed over."""
        now = self._look()
        moved = [name for name, each in now.partitions.items() if each.leader != each.replicas[0]]
        elect_preferred(self._client, moved)

    def _look(self) -> ClusterNow:
        """Look again while a broker that has just failed is still listed."""
        deadline = time.monotonic() + self._client.timeout
        while True:
            try:
                return look(self._client)
            except BrokerUnreachable:
                if time.monotonic() > deadline:
                    raise
            time.sleep(_POLL)
            self._client.cluster.forget_nodes()

    # One broker

    def _restart(self, node: Node) -> None:
        settings = replace(self._client.cluster.settings, client_id="ottla-roll")
        with Connection(settings, node.host, node.port) as before:
            run_command(fill(self._command, node), self._timeout, node.id)
            deadline = time.monotonic() + self._timeout
            while _is_open(before):
                if time.monotonic() > deadline:
                    raise JobError(
                        f"Broker {node.id} has not stopped {self._timeout:g} s after its restart command: check the "
                        "command."
                    )
                time.sleep(_POLL)
        self._client.cluster.drop_closed()
        while not _answers(node, settings):
            if time.monotonic() > deadline:
                raise JobError(
                    f"Broker {node.id} has not come back at {node.host}:{node.port} within {self._timeout:g} s: read "
                    "its log. No other broker was restarted."
                )
            time.sleep(_POLL)

    def _wait_in_sync(self, situation: str) -> None:
        deadline = time.monotonic() + self._timeout
        while True:
            problem = self._problem()
            if problem is None:
                return
            if time.monotonic() > deadline:
                raise JobError(
                    f"{situation}, but after {self._timeout:g} s {problem} No other broker follows."
                )
            time.sleep(_POLL)
            self._client.cluster.drop_closed()
            self._client.cluster.forget_nodes()

    def _problem(self) -> str | None:
        try:
            now = look(self._client)
        except JobError as error:
            return error.message
        away = sorted(self._expected - set(now.racks))
        if away:
            return f"broker {away[0]} is not registered."
        return lag(now)


def _is_open(connection: Connection) -> bool:
    """Ask the broker, because it closes idle connections, and a machine may disappear without a word."""
    try:
        connection.request(_PING, MetadataResponse)
    except JobError:
        return False
    return True


def _answers(node: Node, settings: Settings) -> bool:
    try:
        with Connection(settings, node.host, node.port) as connection:
            return _is_open(connection)
    except JobError:
        return False


def lag(now: ClusterNow) -> str | None:
    """Return a sentence if a partition has no leader or not all replicas in sync."""
    leaderless = sorted(name for name, each in now.partitions.items() if each.leader is None)
    if leaderless:
        return f"{_names(leaderless)} {'has' if len(leaderless) == 1 else 'have'} no leader."
    behind = sorted(name for name, each in now.partitions.items() if not set(each.replicas) <= set(each.isr))
    if not behind:
        return None
    each = now.partitions[behind[0]]
    away = ", ".join(str(replica) for replica in each.replicas if replica not in each.isr)
    return (
        f"{_names(behind)} {'is' if len(behind) == 1 else 'are'} under-replicated: in {behind[0][0]}-{behind[0][1]} "
        f"broker {away} is not in sync."
    )


def _names(partitions: Sequence[Partition]) -> str:
    names = ", ".join(f"{topic}-{number}" for topic, number in partitions[:_NAMED])
    return names + (f" and {len(partitions) - _NAMED} more" if len(partitions) > _NAMED else "")


# The operator's command


def check_template(command: str) -> None:
    try:
        fields = [field for _, field, _, _ in string.Formatter().parse(command) if field is not None]
    except ValueError as error:
        raise JobError(
            f"The restart command is not valid: {error}. Write {{{{ and }}}} for braces."
        ) from None
    for field in fields:
        if field not in _PLACEHOLDERS:
            known = ", ".join(f"{{{each}}}" for each in _PLACEHOLDERS)
            raise JobError(
                f"The restart command has an unknown placeholder {{{field}}}: use {known}. Write {{{{ and }}}} for "
                "braces."
            )
    if "broker" not in fields and "host" not in fields and "port" not in fields:
        raise JobError("The restart command names no broker: use {broker}, {host} or {port} in it.")


def fill(command: str, node: Node) -> str:
    values: Mapping[str, str] = {
        "broker": str(node.id),
        "host": shlex.quote(node.host),
        "port": str(node.port),
    }
    return command.format_map(values)


def run_command(command: str, timeout: float, broker: int) -> None:
    """Run the command in a shell. Its processes inherit no pipe, because a restarted broker would keep it open."""
    try:
        ended = subprocess.run(command, shell=True, stdin=subprocess.DEVNULL, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise JobError(
            f"Broker {broker}: the restart command has not ended within {timeout:g} s: {command}"
        ) from None
    if ended.returncode:
        raise JobError(
            f"Broker {broker}: the restart command failed with exit code {ended.returncode}: {command}"
        )
