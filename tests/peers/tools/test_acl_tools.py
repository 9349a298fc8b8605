"""Promise: kafka-acls and kafka-delegation-tokens match Kafka's own tools in output and effect.

Both tools run each step of a story, each with its own topic, group and user, against the same broker: Apache Kafka, and
Ottla. Kafka's tools keep ACLs in hash sets, so the order of lines is not compared.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import ApacheKafka, Unavailable, java, kafka_classpath, kafka_jars
from ottla.testing import Broker
from tests.peers.tools.kafka_tools import CLASSES, QUICK_JVM, command, ours, theirs

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
SETTINGS = {"authorizer.class.name": AUTHORIZER, "super.users": "User:ANONYMOUS"}

# X is the name that differs between the two.
STORY = [
    ("--list", "--topic", "tX"),
    ("--add", "--topic", "tX", "--allow-principal", "User:X", "--operation", "Read"),
    ("--add", "--topic", "tX", "--allow-principal", "User:X", "--operation", "Read", "--operation", "Write"),
    ("--add", "--topic", "tX", "--allow-principal", "User:X", "--operation", "READ"),
    ("--list", "--topic", "tX"),
    ("--add", "--topic", "tX", "--group", "gX", "--deny-principal", "User:X", "--deny-host", "10.0.0.1", "--deny-host",
     "10.0.0.2", "--operation", "All"),
    ("--list", "--topic", "tX", "--group", "gX"),
    ("--add", "--topic", "tX", "--allow-principal", "User:X2", "--producer"),
    ("--add", "--topic", "tX", "--transactional-id", "iX", "--allow-principal", "User:X3", "--producer"),
    ("--add", "--topic", "tX", "--group", "gX", "--allow-principal", "User:X4", "--consumer"),
    ("--add", "--topic", "tX5", "--group", "gX5", "--allow-principal", "User:X5", "--consumer", "--producer"),
    ("--list", "--topic", "tX", "--principal", "User:X3"),
    ("--list", "--topic", "tX", "--principal", "User:X3", "--principal", "User:X4"),
    ("--list", "--topic", "tX", "--principal", "User:nobody"),
    ("--add", "--topic", "tX", "--allow-principal", "User:X", "--resource-pattern-type", "prefixed", "--operation",
     "DescribeConfigs"),
    ("--list", "--topic", "tX", "--resource-pattern-type", "prefixed"),
    ("--list", "--topic", "tXother", "--resource-pattern-type", "match"),
    ("--list", "--topic", "tX", "--resource-pattern-type", "any"),
    ("--list", "--topic", "tX", "--resource-pattern-type", "MATCH"),
    ("--add", "--user-principal", "User:X", "--allow-principal", "User:X", "--operation", "CreateTokens"),
    ("--add", "--delegation-token", "dX", "--allow-principal", "User:X", "--operation", "Describe"),
    ("--list", "--user-principal", "User:X", "--delegation-token", "dX"),
    ("--add", "--topic", "pX", "--allow-principal", "User:X6", "--producer", "--idempotent"),
    ("--list", "--cluster", "--principal", "User:X6"),
    ("--remove", "--force", "--topic", "tX", "--allow-principal", "User:X", "--operation", "Write"),
    ("--list", "--topic", "tX"),
    ("--remove", "--force", "--topic", "tX", "--group", "gX", "--allow-principal", "User:X4", "--consumer"),
    ("--list", "--topic", "tX", "--group", "gX"),
    ("--remove", "--force", "--topic", "tX"),
    ("--list", "--topic", "tX"),
    ("--list", "--topic", "tX", "--resource-pattern-type", "any"),
    ("--remove", "--force", "--topic", "tX", "--resource-pattern-type", "match"),
    ("--list", "--topic", "tX", "--resource-pattern-type", "any"),
    ("--remove", "--force", "--topic", "nothing-hereX", "--allow-principal", "User:X", "--operation", "Write"),
    ("--remove", "--force", "--cluster", "--allow-principal", "User:X6", "--operation", "IdempotentWrite"),
    ("--list", "--cluster", "--principal", "User:X6"),
]  # fmt: skip

# Both refuse these before they contact a broker.
REFUSED = [
    (),
    ("--list", "--add"),
    ("--list", "--producer"),
    ("--list", "--allow-principal", "User:a"),
    ("--add", "--topic", "t"),
    ("--add", "--allow-principal", "User:a"),
    ("--remove",),
    ("--add", "--topic", "t", "--allow-principal", "User:a", "--operation", "Nonsense"),
    ("--add", "--topic", "t", "--allow-principal", "User:a", "--operation", "DESCRIBE_CONFIGS"),
    ("--add", "--group", "g", "--allow-principal", "User:a", "--operation", "Write"),
    ("--add", "--cluster", "--allow-principal", "User:a", "--operation", "Read"),
    ("--add", "--transactional-id", "i", "--allow-principal", "User:a", "--operation", "Read"),
    ("--add", "--delegation-token", "d", "--allow-principal", "User:a", "--operation", "Read"),
    ("--add", "--user-principal", "User:a", "--allow-principal", "User:a", "--operation", "Read"),
    ("--add", "--topic", "t", "--allow-principal", "User:a", "--resource-pattern-type", "any"),
    ("--add", "--topic", "t", "--allow-principal", "User:a", "--resource-pattern-type", "match"),
    ("--add", "--cluster", "--allow-principal", "User:a", "--resource-pattern-type", "prefixed"),
    ("--add", "--topic", "t", "--principal", "User:a"),
    ("--add", "--producer", "--allow-principal", "User:a"),
    ("--add", "--producer", "--topic", "t", "--allow-principal", "User:a", "--operation", "Read"),
    ("--add", "--producer", "--topic", "t", "--deny-principal", "User:a"),
    ("--add", "--consumer", "--topic", "t", "--group", "g", "--deny-host", "h"),
    ("--add", "--consumer", "--topic", "t", "--allow-principal", "User:a"),
    ("--add", "--consumer", "--topic", "t", "--group", "g", "--cluster", "--allow-principal", "User:a"),
    ("--add", "--idempotent", "--topic", "t", "--allow-principal", "User:a"),
    ("--list", "--bootstrap-controller", "localhost:1"),
    ("--list", "--topic"),
]  # fmt: skip

# Refused on the standard output, with the name of the tool.
FAILING = [
    ("--add", "--topic", "t", "--allow-principal", "ann"),
    ("--list", "--principal", "ann"),
    ("--list", "--topic", "t", "--resource-pattern-type", "nonsense"),
    ("--list", "--topic", "t", "--resource-pattern-type", "unknown"),
]


@pytest.fixture(scope="module", autouse=True)
def apache_kafka_is_there() -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def apache() -> Iterator[ApacheKafka]:
    kafka = ApacheKafka(config=SETTINGS, jvm=("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"))
    try:
        yield kafka.start()
    finally:
        kafka.stop()


@pytest.fixture(scope="module")
def ottla() -> Iterator[Broker]:
    with Broker(config=SETTINGS) as broker:
        yield broker


@pytest.fixture(scope="module", params=["apache", "ottla"])
def broker(request: pytest.FixtureRequest) -> Broker | ApacheKafka:
    found: Broker | ApacheKafka = request.getfixturevalue(request.param)
    return found


def lines(text: str, name: str) -> list[str]:
    """Return the lines without exception traces, which our tools do not print."""
    kept = [
        line for line in text.replace(name, "X").splitlines() if not line.startswith(("\tat ", "Caused by: "))
    ]
    return sorted(line.strip() for line in kept if line.strip())  # the first of a set has a leading blank


def test_both_tools_tell_the_same_story(broker):
    for step in STORY:
        said = {}
        for run, name in ((theirs, "kfk"), (ours, "otl")):
            done = run(broker, "acls", *(word.replace("X", name) for word in step))
            said[run] = done.returncode, lines(done.stdout, name)
        assert said[ours] == said[theirs], step
        assert said[ours][0] == 0, step


def unordered(text: str) -> str:
    """Sort the output, because Kafka's tool prints a set."""
    return re.sub(r"\[(\w+(?:, \w+)+)\]", lambda found: str(sorted(found[1].split(", "))), text)


@pytest.mark.parametrize("args", REFUSED, ids=" ".join)
def test_both_refuse_with_the_same_sentence(apache, args):
    kafka, ottla = theirs(apache, "acls", *args), ours(apache, "acls", *args)
    assert (ottla.returncode, ottla.stdout) == (kafka.returncode, kafka.stdout) == (1, "")
    assert unordered(ottla.stderr.splitlines()[0].strip()) == unordered(kafka.stderr.splitlines()[0].strip())


@pytest.mark.parametrize("args", FAILING, ids=" ".join)
def test_both_fail_with_the_same_line(apache, args):
    kafka, ottla = theirs(apache, "acls", *args), ours(apache, "acls", *args)
    assert ottla.returncode == kafka.returncode == 1
    assert ottla.stdout.splitlines() == kafka.stdout.splitlines()[:1]


def test_without_an_authorizer_both_say_so():
    with Broker() as open_to_all:
        for args in (
            ("--list",),
            ("--add", "--topic", "t", "--allow-principal", "User:a"),
            ("--remove", "--force", "--topic", "t"),
        ):
            kafka, ottla = theirs(open_to_all, "acls", *args), ours(open_to_all, "acls", *args)
            assert ottla.returncode == kafka.returncode == 1
            assert ottla.stdout.splitlines()[0] == kafka.stdout.splitlines()[0]
            assert "SecurityDisabledException" in ottla.stdout


def asked_on_a_terminal(words: list[str], answer: str) -> tuple[int, list[str]]:
    """Run a tool on a terminal, because Java reads confirmations only there."""
    ours_end, its_end = pty.openpty()
    process = subprocess.Popen(
        words, stdin=its_end, stdout=its_end, stderr=subprocess.DEVNULL, close_fds=True
    )
    os.close(its_end)
    os.write(ours_end, answer.encode())
    said = b""
    while True:
        try:
            chunk = os.read(ours_end, 4096)
        except OSError:  # closed on the other side
            break
        if not chunk:
            break
        said += chunk
    os.close(ours_end)
    return process.wait(60), [line.rstrip() for line in said.decode().splitlines()]


@pytest.mark.parametrize("answer", ["y", "Y", "n", "yes", ""])
def test_both_ask_before_they_remove(apache, answer):
    said = []
    for which in ("kafka", "ottla"):
        ours(apache, "acls", "--add", "--topic", f"asked-{which}", "--allow-principal", "User:a")
        words = command(apache, "acls", "--remove", "--topic", f"asked-{which}")
        if which == "kafka":
            words = [java(), *QUICK_JVM, "-cp", kafka_classpath(), CLASSES["acls"], *words[1:]]
        code, printed = asked_on_a_terminal(words, f"{answer}\n")
        left = ours(apache, "acls", "--list", "--topic", f"asked-{which}").stdout
        said.append((code, sorted(line.replace(which, "X") for line in printed), left.replace(which, "X")))
    assert said[0] == said[1]


# -- delegation tokens ----------------------------------------------------------------------------------

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = {"delegation.token.secret.key": "quite secret"}


@pytest.fixture(scope="module")
def apache_with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ApacheKafka, Path]]:
    users = f'{MODULE} required username="admin" password="pencil" user_admin="pencil" user_ann="pencil";'
    kafka = ApacheKafka(
        config={
            "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.plaintext.plain.sasl.jaas.config": users,
            **SECRET,
        },
        jvm=("-Xmx400m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    )
    file = tmp_path_factory.mktemp("tokens") / "ann.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="ann" password="pencil";\n'
    )
    try:
        yield kafka.start(), file
    finally:
        kafka.stop()


@pytest.fixture(scope="module")
def ottla_with_tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    file = tmp_path_factory.mktemp("tokens") / "ann.properties"
    with Broker(security="SASL_PLAINTEXT", users={"ann": "pencil"}, config=SECRET) as broker:
        file.write_text(
            "".join(f"{name}={value}\n" for name, value in broker.client_properties("ann").items())
        )
        yield broker, file


@pytest.fixture(scope="module", params=["apache_with_tokens", "ottla_with_tokens"])
def with_tokens(request: pytest.FixtureRequest) -> tuple[Broker | ApacheKafka, Path]:
    """A broker that issues tokens, and the properties of its user ann."""
    found: tuple[Broker | ApacheKafka, Path] = request.getfixturevalue(request.param)
    return found


def shape(text: str) -> list[str]:
    """Return the output without token-specific values."""
    text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d", "DATE", text)
    text = re.sub(r"[\w+/]{86}==", "HMAC", text)
    return re.sub(r"(tokenId : |^)[\w-]{22}(?=\s)", r"\1TOKEN", text, flags=re.MULTILINE).splitlines()


def test_tokens_are_created_renewed_described_and_expired_alike(with_tokens):
    kafka, file = with_tokens
    said = []
    for run in (theirs, ours):
        config = ("--command-config", str(file))
        created = run(
            kafka, "delegation-tokens", *config, "--create", "--max-life-time-period", "-1",
            "--renewer-principal", "User:bob", "--renewer-principal", "User:eve",
        )  # fmt: skip
        hmac = re.search(r"[\w+/]{86}==", created.stdout)[0]
        ann, nobody = ("--owner-principal", "User:ann"), ("--owner-principal", "User:nobody")
        wait_for_token(kafka, config)
        steps = [
            created,
            run(kafka, "delegation-tokens", *config, "--describe", *ann),
            run(kafka, "delegation-tokens", *config, "--describe", *nobody),
            run(kafka, "delegation-tokens", *config, "--renew", "--renew-time-period", "-1", "--hmac", hmac),
            run(
                kafka, "delegation-tokens", *config, "--expire", "--expiry-time-period", "-1", "--hmac", hmac
            ),
            run(kafka, "delegation-tokens", *config, "--renew", "--renew-time-period", "-1", "--hmac", hmac),
        ]
        said.append([(step.returncode, shape(step.stdout), shape(step.stderr)[:1]) for step in steps])
    assert said[1] == said[0]
    assert [code for code, _, _ in said[0]] == [0] * 5 + [1]


def wait_for_token(kafka: Broker | ApacheKafka, config: tuple[str, ...]) -> None:
    """Wait for the broker, which learns of a token after the controller. Without an owner our tool shows the user's own
    tokens, as both help texts say; Kafka's tool requests nobody's tokens and shows none.
    """
    deadline = time.monotonic() + 30
    while "Total number of tokens : 1" not in ours(kafka, "delegation-tokens", *config, "--describe").stdout:
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("--create",),
        ("--create", "--renew"),
        ("--create", "--command-config", "f"),
        ("--renew", "--command-config", "f"),
        ("--renew", "--command-config", "f", "--hmac", "h"),
        ("--expire", "--command-config", "f", "--hmac", "h"),
        ("--create", "--command-config", "f", "--max-life-time-period", "1", "--hmac", "h"),
        ("--describe", "--command-config", "f", "--hmac", "h"),
        (
            "--renew",
            "--command-config",
            "f",
            "--hmac",
            "h",
            "--renew-time-period",
            "1",
            "--renewer-principal",
            "User:a",
        ),
    ],
    ids=" ".join,
)
def test_both_token_tools_refuse_with_the_same_sentence(apache_with_tokens, args):
    kafka, _ = apache_with_tokens
    their, our = theirs(kafka, "delegation-tokens", *args), ours(kafka, "delegation-tokens", *args)
    assert our.returncode == their.returncode == 1
    assert our.stderr.splitlines()[0].strip() == their.stderr.splitlines()[0].strip()
