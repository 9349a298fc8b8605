"""Promise: records acknowledged before a SIGKILL exist after it, once and in order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from .batches import open_log, records_of

CHILD = """
import os, sys
from ottla.log.config import LogConfig
from ottla.log.partition_log import PartitionLog
from ottla.protocol.records import Record, build_batch

log = PartitionLog.open(sys.argv[1], "t", 0, LogConfig(segment_bytes=200_000))
number = log.log_end_offset
while True:
    value = b"%d:" % number + b"x" * (number * 7919 % 3000)
    data = build_batch(
        [Record(0, 1_700_000_000_000, b"k", value)],
        producer_id=1, producer_epoch=0, base_sequence=number,
    )
    info = log.append(data, leader_epoch=0, now_ms=1_700_000_000_000)
    assert not info.duplicate
    os.write(1, b"%d\\n" % info.last_offset)
    if number % 100 == 99:
        log.flush()
    number += 1
"""


def run_until_killed(directory: Path, seconds: float) -> int:
    """Append in a separate process and kill it; return the last acknowledged offset."""
    root = Path(__file__).parents[2]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(directory)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert child.stdout is not None
    acknowledged = [int(child.stdout.readline())]
    os.set_blocking(child.stdout.fileno(), False)
    end = time.monotonic() + seconds
    rest = b""
    while time.monotonic() < end:
        rest += child.stdout.read() or b""
        time.sleep(0.002)
    child.send_signal(signal.SIGKILL)
    child.wait()
    os.set_blocking(child.stdout.fileno(), True)
    rest += child.stdout.read()
    child.stdout.close()
    acknowledged += [int(line) for line in rest.split(b"\n")[:-1]]
    return acknowledged[-1]


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path):
    directory = tmp_path / "t-0"
    for _ in range(6):
        acknowledged = run_until_killed(directory, random.uniform(0.01, 0.15))
        log = open_log(tmp_path, segment_bytes=200_000)
        assert log.log_end_offset > acknowledged
        values = [(value or b"").split(b":")[0] for _, value in records_of(log)]
        assert values == [b"%d" % number for number in range(log.log_end_offset)]
        assert log.describe_producers()[0].last_sequence == log.log_end_offset - 1
        log.abandon()
