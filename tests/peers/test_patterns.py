"""Promise: subscription patterns have the same meaning as in Apache Kafka, character by character."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from bench.peers.apache_kafka import Unavailable, java, kafka_classpath
from ottla.coordinator.groups.consumer.reconciliation import TopicRegex
from ottla.protocol.errors import KafkaError

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

PATTERNS = Path(__file__).parent / "java" / "Patterns.java"
# fmt: off
PIECES = (
    "a", "b", "B", "k", ".", "-", "_", "1", "^", "$", "|", "*", "+", "?", "*?", "{2}", "{1,3}", "{2,}", "(", ")",
    "(?:", "(?i)", "(?i:", "(?-i)", "(?s)", "(?m)", "(?U)", "(?is-m:", "(?P<n>", "(?<x>", "(?=", "(?!", "(?<=", "(?z)",
    "(?)", "(?-)", "(?i-)", "()", "(|a)", "[", "]", "[^", "[]a]", "[a-c]", "[^a-c]", "[a-", "[b-a]", "[[:alpha:]]",
    "[[:^digit:]]", "[[:upper:]-]", "[[:foo:]]", "[\\d-z]", "[\\w.]", "[a\\]b]", "[\\pL]", "[^\\PL]", "[^\\W]",
    "\\d", "\\D", "\\w", "\\W", "\\s", "\\pL", "\\PN", "\\p{Lu}", "\\p{^Ll}", "\\p{Any}", "\\pX", "\\b", "\\B", "\\A",
    "\\z", "\\Z", "\\Q.*\\E", "\\Q", "\\E", "\\.", "\\-", "\\_", "\\x41", "\\x{61}", "\\x6", "\\101", "\\1", "\\07",
    "\\8", "\\n", "\\y", "\\C", "a{0}", "a{3,1}", "a{1001}", "(?i)[a-c]", "(?i)[^k]", "(?i)\\p{Lu}", "(?i)[[:^lower:]]",
)
NAMES = (
    "", "a", "b", "ab", "A", "AB", "aB", "a.b", "a-b", "a_1", "1", "B", "k", "K", "aaa", "ba", "bab", "abc", "9a", "_",
    "-", ".", "zz", "a1B",
)
# fmt: on


def known(patterns: list[str]) -> list[tuple[str, str]]:
    lines = "".join("\t".join((pattern, *NAMES)) + "\n" for pattern in patterns)
    try:
        command = [java(), "-Xmx256m", "-cp", kafka_classpath(), str(PATTERNS)]
    except Unavailable as reason:
        pytest.skip(str(reason))
    done = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=200, check=True)
    answers = [line.partition("\t") for line in done.stdout.splitlines()]
    # If a pattern has several errors, the choice of the reported one is not compared.
    return [(kind, rest if kind == "ok" else "") for kind, _, rest in answers]


def ours(pattern: str) -> tuple[str, str]:
    try:
        regex = TopicRegex(pattern)
    except KafkaError:
        return "bad", ""
    return "ok", "".join("01"[regex.matches(name)] for name in NAMES)


def test_patterns_mean_what_they_mean_to_kafka() -> None:
    chance = random.Random(7)
    patterns = ["".join(chance.choices(PIECES, k=chance.randint(1, 6))) for _ in range(5000)]
    answers = known(patterns)
    assert len(answers) == len(patterns)
    wrong = {
        pattern: theirs for pattern, theirs in zip(patterns, answers, strict=True) if ours(pattern) != theirs
    }
    assert wrong == {}
    assert sum(kind == "ok" for kind, _ in answers) > 500
