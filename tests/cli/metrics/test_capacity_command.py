"""`ottla capacity`, as a process."""

from __future__ import annotations

import pytest

from ottla.cli.values import parse_size


def test_a_report_says_what_there_is_and_what_to_change(ottla, topic):
    report = ottla("capacity", "--seconds", 0.2).text
    assert "records/s written" in report
    assert "does not survive the loss of any one broker" in report
    assert "There is only one broker, so its data has no other copy." in report


def test_what_if_and_partitions_for_a_rate(ottla, topic):
    found = ottla(
        "capacity", "--seconds", 0.2, "--json", "--growth", 2, "--brokers", 5, "--retention-hours", 24,
        "--target-rate", "100MB", "--partition-produce-rate", "30MB", "--consumers", 3,
    ).json  # fmt: skip
    assert found["partitions_wanted"] == 4
    assert found["what_if"]["brokers"] == 5
    assert found["what_if"]["retention"] == 86_400
    assert found["brokers"]["0"]["replicas"] >= 3
    assert found["survives"] is False


def test_a_rate_without_what_a_partition_carries_is_refused(ottla):
    refused = ottla("capacity", "--seconds", 0.1, "--target-rate", "1MB", check=False)
    assert refused.code == 1
    assert "--probe 5" in refused.err
    assert "is not a size" in ottla("capacity", "--network", "fast", check=False).err


@pytest.mark.parametrize(
    ("text", "size"),
    [("500MB", 5e8), ("1.5GiB", 1.5 * 2**30), ("1Gbit", 1.25e8), ("10", 10), ("2kB/s", 2000)],
)
def test_sizes(text, size):
    assert parse_size(text) == size
