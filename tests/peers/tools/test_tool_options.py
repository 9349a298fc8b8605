"""Promise: every option of Kafka's tools exists in ours under the same name.

The names come from the --help output of Kafka's own tools; our help texts have to list them.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bench.peers.apache_kafka import (
    VERSION,
    ZOOKEEPER_VERSION,
    Unavailable,
    cache_directory,
    kafka_jars,
    run_tool,
)
from tests.installed import kafka_tool
from tests.peers.tools.kafka_tools import CLASSES, QUICK_JVM

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

# Known to our tool and refused with one sentence: Ottla keeps its metadata in ZooKeeper and has no remote storage, so
# no such records exist.
REFUSED = {"dump-log": ["--cluster-metadata-decoder", "--remote-log-metadata-decoder"]}
# Options of the last version with ZooKeeper that its successors lack.
OLD_CLASSES = {
    **CLASSES,
    "console-producer": "kafka.tools.ConsoleProducer",
    "dump-log": "kafka.tools.DumpLogSegments",
    "acls": "kafka.admin.AclCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
}
OLD_NOT_OURS: dict[str, set[str]] = {
    # Encrypted passwords in ZooKeeper, which Ottla does not write.
    "configs": {"--zk-tls-config-file"},
}
SUBCOMMANDS = {"cluster": ["cluster-id", "unregister", "list-endpoints"]}


@pytest.fixture(scope="module", autouse=True)
def apache_kafka_is_there() -> None:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))


def options(text: str) -> set[str]:
    """Return the options at the beginnings of lines; the text further right explains them."""
    found: set[str] = set()
    for line in text.splitlines():
        if re.match(r" {0,2}-", line) and not line.startswith("---"):
            names = re.split(r"\s{2,}|\t", line.strip())[0]
            found.update(re.findall(r"(?<![\w-])--[a-z][\w.-]*", names))
    return found


def help_of_theirs(tool: str, version: str = VERSION) -> str:
    classes = CLASSES if version == VERSION else OLD_CLASSES
    # Without a named option, the latency tool expects positional arguments.
    before = ["--topic", "t"] if tool == "e2e-latency" else []
    texts = []
    for subcommand in SUBCOMMANDS.get(tool, [""]):
        args = [*([subcommand] if subcommand else before), "--help"]
        done = run_tool(classes[tool], args, check=False, timeout=120, jvm=QUICK_JVM, version=version)
        texts.append(done.stdout + done.stderr)
    return "\n".join(texts)


def help_of_ours(tool: str) -> str:
    texts = []
    for subcommand in SUBCOMMANDS.get(tool, [""]):
        args = [*([subcommand] if subcommand else []), "--help"]
        done = subprocess.run(
            [kafka_tool(tool), *args], capture_output=True, text=True, timeout=60, check=True
        )
        texts.append(done.stdout)
    return "\n".join(texts)


# kafka-storage has commands and no options of its own; KRaft's options make no sense here.
@pytest.mark.parametrize("tool", sorted(CLASSES.keys() - {"storage"}))
def test_every_option_of_kafkas_tool_is_ours(tool):
    theirs = options(help_of_theirs(tool))
    assert len(theirs) > 2
    assert theirs - options(help_of_ours(tool)) == set()


@pytest.mark.parametrize(
    "tool",
    ["topics", "configs", "consumer-groups", "console-producer", "console-consumer", "get-offsets",
     "reassign-partitions", "leader-election", "delete-records", "log-dirs", "dump-log", "acls", "delegation-tokens"],
)  # fmt: skip
def test_every_option_of_the_older_tool_is_ours(tool):
    if not Path(cache_directory() / f"apache-kafka-{ZOOKEEPER_VERSION}").is_dir():
        pytest.skip(f"Apache Kafka {ZOOKEEPER_VERSION} is not in the cache")
    theirs = options(help_of_theirs(tool, ZOOKEEPER_VERSION))
    assert len(theirs) > 2
    assert theirs - options(help_of_ours(tool)) == OLD_NOT_OURS.get(tool, set())


@pytest.mark.parametrize(
    ("tool", "option"), [(tool, option) for tool, refused in REFUSED.items() for option in refused]
)
def test_an_option_that_makes_no_sense_here_says_so(tool, option):
    command = [kafka_tool(tool), option, "--files", "x.log"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert option in done.stderr
