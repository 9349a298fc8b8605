"""`kafka-acls` against a broker with an authorizer. tests/peers/tools compares the output with Kafka's."""

from __future__ import annotations

import socket

import pytest

from ottla.testing import Broker
from tests.cli.kafka.conftest import Tools

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture(scope="module")
def acls():
    with Broker(config=SETTINGS) as broker:
        tools = Tools(broker.bootstrap_servers)
        yield lambda *args, **options: tools("acls", *args, **options)


def entry(user, operation, permission="ALLOW", host="*"):
    return f"\t(principal=User:{user}, host={host}, operation={operation}, permissionType={permission})"


def resource(kind, name, pattern="LITERAL"):
    return f"ResourcePattern(resourceType={kind}, name={name}, patternType={pattern})"


def test_what_was_added_is_listed_until_it_is_removed(acls):
    ann = ("--topic", "t1", "--allow-principal", "User:ann", "--operation", "Read")
    added = acls("--add", *ann)
    assert added.lines == [
        f"Adding ACLs for resource `{resource('TOPIC', 't1')}`: ",
        f" {entry('ann', 'READ')}",
        "",
    ]
    again = acls("--add", *ann)
    assert again.lines == [
        f"Acl (pattern={resource('TOPIC', 't1')}, entry={entry('ann', 'READ').strip()}) already exists."
    ]
    listed = [f"Current ACLs for resource `{resource('TOPIC', 't1')}`:", entry("ann", "READ"), ""]
    assert acls("--list", "--topic", "t1").lines == listed
    assert acls("--list", "--principal", "User:ann").lines == ["ACLs for principal `User:ann`", *listed]
    acls("--remove", "--force", *ann)
    assert acls("--list", "--topic", "t1").out == ""


@pytest.mark.parametrize(("answer", "is_left"), [("y\n", False), ("Y\n", False), ("n\n", True), ("", True)])
def test_it_asks_before_it_removes(acls, answer, is_left):
    acls("--add", "--topic", "t2", "--allow-principal", "User:ann")
    asked = acls("--remove", "--topic", "t2", stdin=answer)
    question = (
        f"Are you sure you want to delete all ACLs for resource filter `{resource('TOPIC', 't2')}`? (y/n)"
    )
    assert asked.lines == [question]
    assert bool(acls("--list", "--topic", "t2").out) == is_left
    acls("--remove", "--topic", "t2", "--force")


def test_the_question_names_what_would_be_removed(acls):
    asked = acls(
        "--remove", "--topic", "t3", "--allow-principal", "User:ann", "--operation", "Read", stdin="n\n"
    )
    assert asked.lines == [
        "Are you sure you want to remove ACLs: ",
        f" {entry('ann', 'READ')}",
        f" from resource filter `{resource('TOPIC', 't3')}`? (y/n)",
    ]


def test_what_producers_and_consumers_need(acls):
    acls(
        "--add",
        "--topic",
        "t4",
        "--transactional-id",
        "i4",
        "--allow-principal",
        "User:p",
        "--producer",
        "--idempotent",
    )
    acls("--add", "--topic", "t4", "--group", "g4", "--allow-principal", "User:c", "--consumer")
    assert acls("--list", "--topic", "t4", "--group", "g4", "--transactional-id", "i4").lines == [
        f"Current ACLs for resource `{resource('TOPIC', 't4')}`:",
        *(entry("c", each) for each in ("READ", "DESCRIBE")),
        *(entry("p", each) for each in ("WRITE", "CREATE", "DESCRIBE")),
        "",
        f"Current ACLs for resource `{resource('GROUP', 'g4')}`:",
        entry("c", "READ"),
        "",
        f"Current ACLs for resource `{resource('TRANSACTIONAL_ID', 'i4')}`:",
        *(entry("p", each) for each in ("WRITE", "DESCRIBE")),
        "",
    ]
    assert entry("p", "IDEMPOTENT_WRITE") in acls("--list", "--cluster").lines


def test_patterns(acls):
    acls("--add", "--topic", "pre", "--resource-pattern-type", "prefixed", "--allow-principal", "User:ann")
    for pattern, found in (("match", True), ("literal", False), ("any", False), ("prefixed", False)):
        said = acls("--list", "--topic", "prefix", "--resource-pattern-type", pattern)
        assert bool(said.out) == found, pattern
    assert (
        resource("TOPIC", "pre", "PREFIXED")
        in acls("--list", "--topic", "pre", "--resource-pattern-type", "any").out
    )


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ((), "Command must include exactly one action: --list, --add, --remove. "),
        (("--add", "--topic", "t"),
         "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."),
        (("--list", "--producer"), 'Option "[list]" can\'t be used with option "[producer]"'),
        (("--add", "--topic", "t", "--allow-principal", "User:a", "--resource-pattern-type", "any"),
         "A '--resource-pattern-type' value of 'ANY' is not valid when adding acls."),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_usage_is_one_sentence(acls, args, sentence):
    failed = acls(*args, code=1)
    assert (failed.out, failed.err) == ("", f"{sentence}\n")


def test_what_it_cannot_read_is_a_failure(acls):
    failed = acls("--list", "--topic", "t", "--resource-pattern-type", "x", code=1)
    sentence = "Cannot parse argument 'x' of option resource-pattern-type"
    assert (failed.out, failed.err) == (f"Error while executing ACL command: {sentence}\n", "")


def test_older_command_lines_find_the_brokers_in_zookeeper(alone):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    older = ("--authorizer", "kafka.security.authorizer.AclAuthorizer", "--authorizer-properties")
    failed = alone("acls", *older, f"zookeeper.connect={address}", "--list", code=1)
    assert f"ZooKeeper at {address} cannot be reached" in failed.out
    failed = alone("acls", *older[:2], "--bootstrap-server", address, "--list", code=1)
    assert failed.err == "Only one of --bootstrap-server or --authorizer must be specified\n"


def test_without_an_authorizer_it_says_so(tools):
    said = "org.apache.kafka.common.errors.SecurityDisabledException: No Authorizer is configured"
    assert tools("acls", "--list", code=1).out.startswith(f"Error while executing ACL command: {said}")
