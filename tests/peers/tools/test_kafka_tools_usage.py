"""Promise: our tools match Kafka's own tools on unusual command lines: the same output, exit code, and error message.

`{x}` in a name separates the changes of the two tools.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.peers.apache_kafka import Unavailable, java, kafka_classpath, kafka_jars
from ottla.testing import Broker
from tests.peers.tools.kafka_tools import CLASSES, QUICK_JVM, command, ours, without_logging

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.timeout(300)]

SOURCE = Path(__file__).parents[1] / "java" / "Tools.java"


@pytest.fixture(scope="module")
def broker(tmp_path_factory) -> Iterator[Broker]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with Broker(config={"num.partitions": "3", "log.retention.ms": "-1"}) as broker:
        broker.create_topic("plain", partitions=3)
        broker.create_topic("other", partitions=1)
        for number in range(20):
            broker.produce("plain", b"value %d" % number, partition=number % 2, timestamp=1000 + number)
        for number in range(5):
            broker.produce(
                "other", b"o%d" % number, key=b"k%d" % number, headers=[("h", b"x")], timestamp=2000 + number
            )
        for group in ("g", "h"):
            ours(broker, "consumer-groups", "--group", group, "--topic", "plain", "--reset-offsets",
                 "--to-offset", "4", "--execute")  # fmt: skip
        yield broker


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("files")
    for name, text in {
        "offsets.csv": "plain,0,2\nplain,1,3\n",
        "of-groups.csv": "g,plain,0,2\nh,plain,1,3\n",
        "far.csv": "plain,0,999\n",
        "good.properties": "retention.ms=1234\nmax.message.bytes=2000\n",
        "elect.json": '{"partitions": [{"topic": "plain", "partition": 0}]}',
        "elect-twice.json": '{"partitions": [{"topic": "plain", "partition": 0}, {"topic": "plain", "partition": 0}]}',
        "client.properties": "nothing.that.a.client.knows=1\n",
    }.items():
        (directory / name).write_text(text)
    return directory


SAME = """
topics --list --topic pl.*,oth.*
topics --list --topic nowhere
topics --list no-option
topics --describe --topic nowhere --if-exists
topics --describe --topic-id abc
topics --describe --topic-id 4XzlOwIgSPuk2Tgm5tyrPQ
topics --describe --topic-id 4XzlOwIgSPuk2Tgm5tyrPQ --topic plain --if-exists
topics --describe --topic plain --partition-size-limit-per-response 1
topics --describe --topic plain --unavailable-partitions --under-replicated-partitions
topics --describe --topic plain --under-min-isr-partitions --at-min-isr-partitions
topics --alter --topic plain --partitions 0
topics --alter --topic plain --partitions x
topics --alter --topic nowhere --partitions 3 --if-exists
topics --alter --topic plain --partitions 4 --replica-assignment 0,0,0,9
topics --alter --topic plain --partitions 4 --replica-assignment 0,0
topics --create --topic made-{x} --replica-assignment 0,0 --config retention.ms=1000
topics --alter --topic made-{x} --partitions 3 --replica-assignment 0,0,0
topics --delete --topic made-{x}
topics --delete --topic nowhere --if-exists
topics --create --topic wrong --config nope=1
topics --create --topic wrong --config retention.ms
topics --create --topic wrong --config retention.ms=abc
topics --create --topic wrong --replication-factor 40000
topics --create --topic wrong --replica-assignment 0:0
topics --create --topic wrong --replica-assignment 0:1,1
topics --create --topic wrong --replica-assignment x
topics --create --topic 'bad name'
topics --create --topic ..
topics --describe --topic a --topic b
topics --list --command-config {files}/client.properties
configs --describe --entity-type topics
configs --describe --group nobody --all
configs --describe --client-metrics nobody --all
configs --alter --topic other --add-config cleanup.policy=[compact,delete],retention.ms=5
configs --describe --topic other
configs --alter --topic other --delete-config cleanup.policy,retention.ms
configs --alter --topic other --delete-config retention.ms
configs --alter --topic other --add-config-file {files}/good.properties
configs --alter --topic other --delete-config retention.ms,max.message.bytes
configs --alter --client c-{x} --add-config producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=200
configs --describe --client c-{x}
configs --alter --client c-{x} --delete-config producer_byte_rate
configs --alter --client c-{x} --delete-config producer_byte_rate
configs --alter --user u-{x} --client c --add-config producer_byte_rate=10
configs --alter --user-defaults --client-defaults --add-config request_percentage=5
configs --describe --user-defaults --client-defaults
configs --alter --user u-{x} --add-config SCRAM-SHA-256=[password=abc],SCRAM-SHA-512=[iterations=5000,password=abc]
configs --describe --user u-{x}
configs --alter --user u-{x} --delete-config SCRAM-SHA-256,SCRAM-SHA-512
configs --alter --client-metrics m-{x} --add-config interval.ms=1000,metrics=[a.,b.],match=[client_id=x]
configs --describe --client-metrics m-{x}
configs --alter --broker 0 --add-config ssl.keystore.password=secret
configs --alter --broker-defaults --add-config log.cleaner.threads=x
consumer-groups --list --state empty,stable
consumer-groups --list --type classic --state empty
consumer-groups --describe --group g --group h
consumer-groups --describe --group g --group nobody
consumer-groups --describe --group g --group h --members
consumer-groups --describe --group g --state --verbose
consumer-groups --reset-offsets --group g --topic plain --to-earliest
consumer-groups --reset-offsets --group g --topic plain --to-current --dry-run
consumer-groups --reset-offsets --group g --topic plain --to-offset -7 --dry-run
consumer-groups --reset-offsets --group g --topic plain --shift-by -2 --dry-run
consumer-groups --reset-offsets --group g --topic plain --to-datetime 1970-01-01T00:00:01.010 --dry-run
consumer-groups --reset-offsets --group g --topic plain --to-datetime 2099-01-01T00:00:01.000Z --dry-run
consumer-groups --reset-offsets --group g --topic plain --by-duration P1D --dry-run
consumer-groups --reset-offsets --group g --topic plain:0 --topic other --to-latest --dry-run
consumer-groups --reset-offsets --group g --group h --all-topics --to-earliest --export --dry-run
consumer-groups --reset-offsets --all-groups --all-topics --to-latest --dry-run
consumer-groups --reset-offsets --group g --from-file {files}/offsets.csv --dry-run
consumer-groups --reset-offsets --group g --group h --from-file {files}/of-groups.csv --dry-run
consumer-groups --reset-offsets --group g --from-file {files}/far.csv --dry-run
consumer-groups --delete-offsets --group g --topic plain:2
consumer-groups --delete --group nobody --group nobody2
consumer-groups --validate-regex 'a.*'
consumer-groups --validate-regex 'a(['
consumer-groups --validate-regex '(?<=a)b'
consumer-groups --validate-regex '[[:alpha:]]\\pN{2,3}'
consumer-groups --validate-regex 'a**'
get-offsets --time max-timestamp --topic plain
get-offsets --time earliest-local --topic plain
get-offsets --time latest-tiered --topic plain
get-offsets --time 1005 --topic plain
get-offsets --topic-partitions plain:-2,other
get-offsets --topic-partitions plain:a
get-offsets --exclude-internal-topics
log-dirs --describe --broker-list 0,0 --topic-list nowhere
leader-election --election-type preferred --path-to-json-file {files}/elect.json
leader-election --election-type preferred --path-to-json-file {files}/elect-twice.json
leader-election --election-type PREFERRED --topic plain --partition 0 --admin.config {files}/client.properties
cluster unregister --id 7
cluster list-endpoints --include-fenced-brokers
console-consumer --topic other --partition 0 --offset earliest --max-messages 2 --property print.key=true
console-consumer --topic other --partition 0 --offset 99 --consumer-property auto.offset.reset=earliest --max-messages 2
console-consumer --topic other --partition 0 --offset 3 --max-messages 1 --formatter-property print.headers=true
console-consumer --topic other --partition 0 --offset 3 --max-messages 1 --formatter-property print.delivery=true
console-consumer --include oth.* --from-beginning --max-messages 2 --consumer.config {files}/client.properties
console-consumer --topic other --from-beginning --max-messages 2 --formatter org.apache.kafka.tools.consumer.NoOpMessageFormatter
console-consumer --topic other --partition 0 --offset earliest --max-messages 2 --skip-message-on-error --value-deserializer org.apache.kafka.common.serialization.LongDeserializer
console-consumer --topic other --partition 0 --offset earliest --max-messages 2 --value-deserializer org.apache.kafka.common.serialization.LongDeserializer
"""  # noqa: E501

WRONG = """
!topics
topics
topics --create
topics --alter --topic plain
topics --alter --topic plain --config retention.ms=1
topics --alter --topic plain --delete-config retention.ms
topics --list --if-exists
topics --list --partitions 3
topics --describe --if-exists
topics --describe --topics-with-overrides --under-replicated-partitions
topics --create --topic t --replica-assignment 0,0 --replication-factor 1
topics --list --nope
topics --bootstrap 1
!topics --list
!topics --list --bootstrap-server
!configs
configs
configs --describe --topic plain --entity-type brokers
configs --describe --topic plain --topic other
configs --describe --entity-type topics --entity-default
configs --describe --entity-type users --entity-type users --entity-name u
configs --describe --topic plain --add-config a=b
configs --describe --topic 'pl*'
configs --alter --topic plain
configs --alter --topic plain --add-config retention.ms
configs --alter --entity-type brokers --add-config num.io.threads=1
configs --alter --entity-type topics --entity-default --add-config retention.ms=1
!configs --describe --topic plain
configs --describe --topic plain --bootstrap-controller localhost:1
!consumer-groups
consumer-groups
consumer-groups --list --state nope
consumer-groups --list --type share
consumer-groups --list --group g
consumer-groups --list --members
consumer-groups --describe --group g --all-groups
consumer-groups --describe --group g --topic plain
consumer-groups --describe --group g --state stable
consumer-groups --reset-offsets --group g --topic plain --dry-run
consumer-groups --reset-offsets --group g --to-latest --dry-run
consumer-groups --reset-offsets --topic plain --to-latest --dry-run
consumer-groups --reset-offsets --group g --topic plain --to-latest --to-earliest --dry-run
consumer-groups --reset-offsets --group g --topic plain --to-latest --dry-run --execute
consumer-groups --reset-offsets --group g --topic plain:x --to-latest --dry-run
consumer-groups --reset-offsets --group g --topic plain: --to-latest --dry-run
consumer-groups --delete-offsets --group g
consumer-groups --delete --group g --topic plain
!consumer-groups --list
!console-producer
console-producer --topic t --property a=b --reader-property c=d
console-producer --topic t --command-property a=b --producer-property c=d
!console-consumer
console-consumer
console-consumer --topic other --include other
console-consumer --topic other --offset 3
console-consumer --topic other --partition 0 --offset x
console-consumer --topic other --property a=b --formatter-property c=d
!reassign-partitions
reassign-partitions
reassign-partitions --list --throttle 5
reassign-partitions --list --bootstrap-controller localhost:1
!get-offsets
!delete-records
!log-dirs
!broker-api-versions
!leader-election
leader-election --election-type preferred --topic plain
!consumer-perf-test
consumer-perf-test --topic other
consumer-perf-test --num-records 5
!dump-log
"""


class Tools:
    """Kafka's tools in one JVM, which saves a JVM start for each."""

    def __init__(self) -> None:
        command = [java(), *QUICK_JVM, "-cp", kafka_classpath(), str(SOURCE)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __call__(self, broker: Broker | None, tool: str, *args: str) -> tuple[str, str, int]:
        words = [CLASSES[tool], *command(broker, tool, *args)[1:]]
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(f".{b64encode(word.encode()).decode()}" for word in words) + "\n")
        self.process.stdin.flush()
        code, out, err = self.process.stdout.readline().split()
        return b64decode(out[1:]).decode(), b64decode(err[1:]).decode(), int(code)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait(30)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def kafka(broker: Broker) -> Iterator[Tools]:
    tools = Tools()
    yield tools
    tools.close()


def run_ours(broker: Broker | None, tool: str, *args: str) -> tuple[str, str, int]:
    done = ours(broker, tool, *args)
    return done.stdout, done.stderr, done.returncode


def both(broker: Broker, kafka: Tools, files: Path, line: str) -> list[tuple[list[str], str, int]]:
    """Return each tool's output, the first line of its error, and its exit code."""
    made = []
    for run, side in ((kafka, "k"), (run_ours, "o")):
        words = shlex.split(line.lstrip("!").replace("{x}", side).replace("{files}", str(files)))
        out, err, code = run(None if line.startswith("!") else broker, *words)
        # Our tools keep the note about an option's newer name out of the output.
        printed = [
            re.sub(rf"-{side}\b", "-x", each) for each in without_logging(out) if " deprecated " not in each
        ]
        complaint = re.sub(r'^Exception in thread "main" [\w.]+: ', "", (err.strip() or "\n").splitlines()[0])
        made.append((printed, complaint, code))
    return made


@pytest.mark.parametrize("line", SAME.strip().splitlines())
def test_both_print_the_same(broker, kafka, files, line):
    (expected, _, code), (said, complaint, our_code) = both(broker, kafka, files, line)
    if "--reset-offsets" in line:  # Kafka's tool keeps partitions in a hash map
        expected, said = sorted(expected), sorted(said)
    if "--describe --client c" in line:  # and lists names with colliding hashes in the broker's order
        expected, said = (sorted(re.split(r" are |, ", each[0])) for each in (expected, said))
    assert said == expected, complaint
    assert our_code == code


@pytest.mark.parametrize("line", WRONG.strip().splitlines())
def test_both_complain_in_the_same_words(broker, kafka, files, line):
    (_, expected, code), (_, said, our_code) = both(broker, kafka, files, line)
    # Kafka's tools keep listed names in sets.
    assert sorted(re.findall(r"[\w-]+", said)) == sorted(re.findall(r"[\w-]+", expected))
    assert our_code == code == 1
