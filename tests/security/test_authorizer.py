"""Promise: authorization follows Kafka's rules."""

from __future__ import annotations

import itertools
import random

import pytest

from ottla.security.acls import (
    Acl,
    AclFilter,
    BadAcl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
    applies,
    check_creation,
)
from ottla.security.authorizer import Authorizer, parse_super_users
from ottla.security.principal import KafkaPrincipal

ANN, BOB = KafkaPrincipal("User", "ann"), KafkaPrincipal("User", "bob")
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
HOST = "10.0.0.7"


def acl(
    operation: Operation,
    name: str = "orders",
    *,
    who: str = "User:ann",
    permission: Permission = ALLOW,
    pattern: PatternType = LITERAL,
    kind: ResourceType = TOPIC,
    host: str = "*",
) -> Acl:
    return Acl(ResourcePattern(kind, name, pattern), Entry(who, host, operation, permission))


def authorizer(*acls: Acl, super_users: tuple[str, ...] = (), allow_everyone: bool = False) -> Authorizer:
    made = Authorizer(super_users, allow_everyone=allow_everyone)
    for pattern in {each.pattern for each in acls}:
        made.replace(pattern, [each.entry for each in acls if each.pattern == pattern])
    return made


def allowed(made: Authorizer, operation: Operation, name: str = "orders", who: KafkaPrincipal = ANN) -> bool:
    return made.authorize(who, HOST, operation, TOPIC, name).allowed


# -- the rules, one by one ----------------------------------------------------------------------------------


def test_nobody_may_anything_without_acls_unless_that_is_said() -> None:
    assert not allowed(authorizer(), READ)
    assert allowed(authorizer(allow_everyone=True), READ)
    somebody_else = acl(READ, who="User:bob")
    assert not allowed(authorizer(somebody_else, allow_everyone=True), READ), "there are ACLs about it"


def test_no_acl_denies_anything_to_a_super_user() -> None:
    made = authorizer(acl(ALL, permission=DENY), super_users=("User:ann",))
    assert made.authorize(ANN, HOST, READ, TOPIC, "orders") == (True, "SuperUser")


def test_to_deny_outweighs_to_allow() -> None:
    assert not allowed(authorizer(acl(READ), acl(READ, "*", who="User:*", permission=DENY)), READ)
    assert not allowed(authorizer(acl(READ), acl(ALL, "ord", permission=DENY, pattern=PREFIXED)), READ)


@pytest.mark.parametrize("operation", [READ, WRITE, Operation.DELETE, Operation.ALTER, ALL])
def test_who_may_do_more_may_look(operation: Operation) -> None:
    assert allowed(authorizer(acl(operation)), DESCRIBE)
    denied = authorizer(acl(DESCRIBE), acl(operation, permission=DENY))
    assert allowed(denied, DESCRIBE) is (operation is not ALL), "to deny them denies nothing else"


def test_create_and_cluster_action_imply_nothing() -> None:
    made = authorizer(acl(Operation.CREATE), acl(Operation.CLUSTER_ACTION, "kafka-cluster", kind=CLUSTER))
    assert not allowed(made, DESCRIBE)
    assert not made.authorize(ANN, HOST, DESCRIBE, CLUSTER, "kafka-cluster").allowed


@pytest.mark.parametrize(
    ("pattern", "name", "covers"),
    [
        (LITERAL, "orders", True),
        (LITERAL, "order", False),
        (LITERAL, "*", True),
        (PREFIXED, "ord", True),
        (PREFIXED, "orders", True),
        (PREFIXED, "orders2", False),
        (PREFIXED, "*", False),
    ],
)
def test_which_patterns_are_about_a_topic(pattern: PatternType, name: str, covers: bool) -> None:
    assert allowed(authorizer(acl(READ, name, pattern=pattern)), READ) is covers


def test_hosts_are_addresses_and_principals_are_whole() -> None:
    assert allowed(authorizer(acl(READ, host=HOST)), READ)
    assert not allowed(authorizer(acl(READ, host="10.0.0.0/8")), READ)
    assert not allowed(authorizer(acl(READ, who="User:an")), READ)
    assert not allowed(authorizer(acl(READ, who="Group:*")), READ)
    assert allowed(authorizer(acl(READ, who="User:*")), READ, who=BOB)


def test_the_rule_is_named_as_in_kafkas_audit_log() -> None:
    made = authorizer(acl(READ, "ord", pattern=PREFIXED))
    assert made.authorize(ANN, HOST, READ, TOPIC, "orders").rule == (
        "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=ord, patternType=PREFIXED, principal=User:ann, "
        "host=*, operation=READ, permissionType=ALLOW))"
    )
    assert made.authorize(BOB, HOST, READ, TOPIC, "orders").rule == "DefaultDeny"
    assert str(ResourcePattern(ResourceType.TRANSACTIONAL_ID, "t")) == "TransactionalId:LITERAL:t"


def test_bit_fields_of_those_who_may_everything() -> None:
    made = authorizer(super_users=("User:ann",))
    found = [made.authorized_operations(ANN, HOST, kind, "x") for kind in (TOPIC, GROUP, CLUSTER)]
    assert found == [3576, 3400, 8096]


@pytest.mark.parametrize(
    ("acls", "answer"),
    [
        ([], False),
        ([acl(WRITE)], True),
        ([acl(DESCRIBE)], False),
        ([acl(WRITE), acl(WRITE, permission=DENY)], False),
        ([acl(WRITE), acl(WRITE, "ord", permission=DENY, pattern=PREFIXED)], False),
        ([acl(WRITE, "ord", pattern=PREFIXED), acl(WRITE, permission=DENY)], True),
        ([acl(WRITE, "ord", pattern=PREFIXED), acl(WRITE, "o", permission=DENY, pattern=PREFIXED)], False),
        ([acl(WRITE, "*"), acl(WRITE, "ord", permission=DENY, pattern=PREFIXED)], True),
        ([acl(WRITE), acl(WRITE, "*", permission=DENY)], False),
        ([acl(ALL, who="User:*")], True),
    ],
)
def test_whether_a_producer_may_write_anywhere(acls: list[Acl], answer: bool) -> None:
    assert authorizer(*acls).authorize_any(ANN, HOST, WRITE, TOPIC) is answer


def test_the_version_moves_with_every_change_and_empty_patterns_go() -> None:
    pattern = ResourcePattern(TOPIC, "ord", PREFIXED)
    made = Authorizer()
    entries = [Entry("User:ann", "*", operation, ALLOW) for operation in (READ, WRITE, DESCRIBE)]
    made.replace(pattern, entries)
    assert len(list(made)) == 3
    before = made.version
    made.replace(pattern, entries[1:])
    assert made.version > before
    assert not allowed(made, READ)
    assert allowed(made, WRITE), "one of three is gone, the others are not"
    made.replace(pattern, [])
    assert list(made) == []
    assert not allowed(made, WRITE)


# -- filters and creations ----------------------------------------------------------------------------------


def test_filters() -> None:
    acls = [acl(READ), acl(WRITE, "*"), acl(READ, "ord", pattern=PREFIXED), acl(READ, "orders", kind=GROUP)]
    made = authorizer(*acls)

    def found(**fields: object) -> set[Acl]:
        return set(made.find(AclFilter(**fields)))  # type: ignore[arg-type]

    assert found() == set(acls)
    assert found(resource_type=TOPIC, name="orders") == {acls[0]}
    assert found(resource_type=TOPIC, name="orders", pattern_type=PatternType.MATCH) == set(acls[:3])
    assert found(resource_type=TOPIC, name="ord") == {acls[2]}
    assert found(resource_type=TOPIC, name="ord", pattern_type=LITERAL) == set()
    assert found(operation=WRITE) == {acls[1]}
    assert found(principal="User:bob") == set()
    assert found(pattern_type=PREFIXED) == {acls[2]}


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (acl(READ, "other", kind=CLUSTER), "The only valid name for the CLUSTER resource is kafka-cluster"),
        (acl(READ, ""), "Resource name should not be empty"),
        (acl(Operation.ANY), "ANY"),
        (acl(READ, pattern=PatternType.MATCH), "MATCH"),
        (acl(READ, kind=ResourceType.UNKNOWN), "UNKNOWN"),
        (acl(READ, permission=Permission.ANY), "ANY"),
        (acl(READ, who="ann"), "Could not parse principal from `ann`"),
    ],
)
def test_acls_that_cannot_be_kept(broken: Acl, why: str) -> None:
    with pytest.raises(BadAcl, match=why):
        check_creation(broken)


def test_super_users() -> None:
    assert parse_super_users(" User:ann ;; User:CN=a,O=b") == {"User:ann", "User:CN=a,O=b"}
    with pytest.raises(ValueError, match="'ann' is not a principal"):
        parse_super_users("User:bob;ann")


# -- against a model ----------------------------------------------------------------------------------------

NAMES = ["", "*", "a", "ab", "abc", "b", "ba", "kafka-cluster"]


def model(
    acls: list[Acl],
    super_users: set[str],
    everyone: bool,
    who: str,
    host: str,
    operation: Operation,
    name: str,
) -> bool:
    """Evaluate the five steps of the authorizer over a plain list."""
    if who in super_users:
        return True
    about = [each for each in acls if each.pattern.resource_type is TOPIC and applies(each.pattern, name)]
    mine = [
        each.entry
        for each in about
        if each.entry.principal in (who, "User:*") and each.entry.host in (host, "*")
    ]
    if any(each.permission is DENY and each.operation in (operation, ALL) for each in mine):
        return False
    wanted = {operation, ALL}
    if operation is DESCRIBE:
        wanted |= {READ, WRITE, Operation.DELETE, Operation.ALTER}
    if operation is Operation.DESCRIBE_CONFIGS:
        wanted |= {Operation.ALTER_CONFIGS}
    if any(each.permission is ALLOW and each.operation in wanted for each in mine):
        return True
    return not about and everyone


def test_a_hundred_thousand_decisions_are_those_of_the_model() -> None:
    choose = random.Random(14)
    operations = [each for each in Operation if each > ALL]
    decided = {True: 0, False: 0}
    for _ in range(600):
        acls = list(
            {
                acl(
                    choose.choice([*operations, ALL]),
                    choose.choice(NAMES[1:]),
                    who=choose.choice(["User:ann", "User:bob", "User:*"]),
                    permission=choose.choice([ALLOW, ALLOW, DENY]),
                    pattern=choose.choice([LITERAL, PREFIXED]),
                    kind=choose.choice([TOPIC, TOPIC, TOPIC, GROUP]),
                    host=choose.choice(["*", "*", HOST, "10.0.0.8"]),
                )
                for _ in range(choose.randrange(12))
            }
        )
        everyone = choose.random() < 0.3
        super_users = {"User:bob"} if choose.random() < 0.1 else set()
        made = authorizer(*acls, super_users=tuple(super_users), allow_everyone=everyone)
        for who, name, operation in itertools.product((ANN, BOB), NAMES[1:], operations):
            host = choose.choice([HOST, "10.0.0.9"])
            expected = model(acls, super_users, everyone, str(who), host, operation, name)
            assert made.authorize(who, host, operation, TOPIC, name).allowed is expected, (
                acls,
                who,
                name,
                operation,
            )
            decided[expected] += 1
    assert min(decided.values()) > 10_000
    assert sum(decided.values()) >= 100_000
