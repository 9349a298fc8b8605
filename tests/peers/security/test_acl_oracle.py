"""Promise: authorization matches Apache Kafka: the same random ACLs and requests give the same responses."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from bench.measuring.wire import free_port
from bench.peers.apache_kafka import ApacheKafka
from ottla.protocol.messages import cluster, topics
from ottla.security.acls import (
    CLUSTER_NAME,
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.security.every_api import SILENT, Case, Names, cases, verdicts
from tests.security.sasl_broker import (
    AUTHORIZER,
    EVERY_ACL,
    JAAS,
    TOKEN_SECRET,
    AuthorizedBroker,
    add_acls,
    logged_in,
    remove_all_acls,
)

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

TOPICS = ("orders", "prices")
ROUNDS = 30


@pytest.fixture(scope="module")
def peers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Login addresses at Ottla and at Apache Kafka."""
    controller, internal, sasl = free_port(), free_port(), free_port()
    listeners = {"SASL": sasl, "INTERNAL": internal, "CONTROLLER": controller}
    kafka = ApacheKafka(
        port=sasl,
        data=tmp_path_factory.mktemp("kafka"),
        config={
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in listeners.items()),
            "advertised.listeners": f"SASL://127.0.0.1:{sasl},INTERNAL://127.0.0.1:{internal}",
            "listener.security.protocol.map": "SASL:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl.plain.sasl.jaas.config": JAAS,
            "authorizer.class.name": AUTHORIZER,
            "super.users": "User:admin;User:ANONYMOUS",
            "delegation.token.secret.key": TOKEN_SECRET,
        },
    )
    ottla = AuthorizedBroker(tmp_path_factory.mktemp("ottla"))
    with kafka, ottla.broker:
        yield [ottla.sasl, f"127.0.0.1:{sasl}"]


class Peer:
    """One of the two brokers, with the topics of the requests."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.admin = logged_in(bootstrap_servers, "admin")
        self.users = {name: logged_in(bootstrap_servers, name) for name in ("ann", "bob")}
        self.names = Names(self._topics())
        for kind, key in ((0, "g"), (1, "x")):
            self._await_coordinator(kind, key)

    def close(self) -> None:
        for client in (self.admin, *self.users.values()):
            client.socket.close()

    def _topics(self) -> dict[str, bytes]:
        wanted = [topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in TOPICS]
        self.admin.call(topics.CreateTopicsRequest(topics=wanted, timeout_ms=30_000))
        asked = cluster.MetadataRequest(
            topics=[cluster.MetadataRequestTopic(name=name) for name in TOPICS],
            allow_auto_topic_creation=False,
        )
        deadline = time.monotonic() + 60
        while True:
            answer: Any = self.admin.call(asked, 12)
            if all(topic.partitions and not topic.partitions[0].error_code for topic in answer.topics):
                return {topic.name: topic.topic_id for topic in answer.topics}
            assert time.monotonic() < deadline, answer

    def _await_coordinator(self, kind: int, key: str) -> None:
        deadline = time.monotonic() + 60
        request = cluster.FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        while True:
            answer: Any = self.admin.call(request, 4)
            if not answer.coordinators[0].error_code:
                return
            assert time.monotonic() < deadline, answer

    def set_acls(self, acls: set[Acl]) -> None:
        """Replace all ACLs, and wait until they are in force."""
        remove_all_acls(self.admin)
        add_acls(self.admin, sorted(acls))
        deadline = time.monotonic() + 60
        while True:
            answer: Any = self.admin.call(EVERY_ACL)
            found = {
                Acl(
                    ResourcePattern(
                        ResourceType(each.resource_type), each.resource_name, PatternType(each.pattern_type)
                    ),
                    Entry(acl.principal, acl.host, Operation(acl.operation), Permission(acl.permission_type)),
                )
                for each in answer.resources
                for acl in each.acls
            }
            if found == acls:
                return
            assert time.monotonic() < deadline, (found, acls)


_NAMES = {
    ResourceType.TOPIC: ("orders", "prices", "missing", "new-1", "*", "ord", "p"),
    ResourceType.GROUP: ("g", "g-share", "other", "*", "g-"),
    ResourceType.TRANSACTIONAL_ID: ("x", "other", "*"),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.USER: ("User:cat", "*", "User:"),
}
_OPERATIONS = {
    ResourceType.TOPIC: (2, 3, 4, 5, 6, 7, 8, 10, 11),
    ResourceType.GROUP: (2, 3, 6, 8, 10, 11),
    ResourceType.TRANSACTIONAL_ID: (2, 4, 8),
    ResourceType.CLUSTER: (2, 5, 6, 7, 8, 9, 10, 11, 12),
    ResourceType.USER: (2, 13, 14),
}


def random_acls(rng: random.Random) -> set[Acl]:
    acls = set()
    for _ in range(rng.randint(0, 25)):
        kind = rng.choice(list(_NAMES))
        name = rng.choice(_NAMES[kind])
        can_prefix = kind is not ResourceType.CLUSTER and name != "*"
        pattern_type = PatternType.PREFIXED if can_prefix and rng.random() < 0.3 else PatternType.LITERAL
        acls.add(
            Acl(
                ResourcePattern(kind, name, pattern_type),
                Entry(
                    rng.choice(("User:ann", "User:ann", "User:bob", "User:*")),
                    rng.choice(("*", "*", "127.0.0.1", "10.0.0.1")),
                    Operation(rng.choice(_OPERATIONS[kind])),
                    Permission.DENY if rng.random() < 0.2 else Permission.ALLOW,
                ),
            )
        )
    return acls


def told(case: Case, found: list[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    """Return the comparable parts: all refusals, and the contents for APIs that only filter."""
    if case.name in SILENT:
        return found
    told = [each for each in found if each[2]]
    # Kafka omits the user if it refuses a request as a whole.
    return [(path, "", code) for path, _, code in told] if case.key == 50 else told


def test_random_acls_and_requests_of_every_api_get_kafkas_answers(peers: list[str]) -> None:
    rng = random.Random(20261116)
    both = [Peer(address) for address in peers]
    requests = decisions = refused = 0
    differences = []
    try:
        for _ in range(ROUNDS):
            acls = random_acls(rng)
            for peer in both:
                peer.set_acls(acls)
            user = rng.choice(("ann", "bob"))
            for ours, theirs in zip(*(cases(peer.names) for peer in both), strict=True):
                if ours.key >= 10_000:  # Ottla's own APIs: Kafka has no response
                    continue
                mine, kafkas = (
                    verdicts(peer.users[user].call(case.request, case.version))
                    for peer, case in zip(both, (ours, theirs), strict=True)
                )
                requests += 1
                decisions += len(mine)
                refused += sum(1 for _, _, code in mine if code in (29, 30, 31, 53))
                if told(ours, mine) != told(theirs, kafkas):
                    differences.append((ours.name, user, sorted(acls), mine, kafkas))
    finally:
        for peer in both:
            peer.close()
    print(f"{requests} requests, {decisions} decisions, {refused} of them refused")
    assert not differences, "\n".join(
        f"{name}: {told_here} instead of {told_there}" for name, _, _, told_here, told_there in differences
    )
    assert requests >= 500
    assert decisions >= 5000


def test_the_client_of_the_oracle_is_refused_without_any_acl(peers: list[str]) -> None:
    for address in peers:
        peer = Peer(address)
        try:
            peer.set_acls(set())
            [case] = [each for each in cases(peer.names) if each.name == "2 ListOffsets"]
            codes = {code for _, _, code in verdicts(peer.users["ann"].call(case.request, case.version))}
            assert codes == {29}
        finally:
            peer.close()
