"""Faults of a soak, one at a time. Broker 0 is never killed, so that a leak in it has the whole time to show."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.soak.servers import BROKERS, SESSION_SECONDS, SecuredCluster, wait_until

MORTAL = (1, 2)
#: The broker whose disk is small enough to be filled.
SMALL_DISK = 1


@contextlib.contextmanager
def small_disk(path: Path) -> Iterator[bool]:
    """Mount a tmpfs for the data of one broker. Yields False if mounting is not allowed."""
    path.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", "size=768m", "tmpfs", str(path)]
    mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(path)], check=False)


class SoakFaults:
    def __init__(self, cluster: SecuredCluster, seed: int, *, has_small_disk: bool) -> None:
        self._cluster = cluster
        self._rng = random.Random(seed)
        self._has_small_disk = has_small_disk
        self._begun = time.monotonic()
        self.struck: list[tuple[float, str]] = []
        self.kinds: dict[str, Callable[[], None]] = {
            "broker killed": lambda: self._kill(self._rng.choice(MORTAL)),
            "two brokers killed": lambda: self._kill(*MORTAL),
            "broker paused, its session goes on": lambda: self._pause(0.5),
            "broker paused, its session ends": lambda: self._pause(1.5),
            "disk full": self._fill_disk,
            "disk full, refused by the system call": self._refuse_writes,
            "clock jumps": self._jump,
            "certificate renewed": self._renew,
        }

    def strike_for(self, seconds: float, every: float) -> None:
        """Strike with all kinds in random order, over and over."""
        end = time.monotonic() + seconds
        kinds: list[str] = []
        while time.monotonic() < end:
            kinds = kinds or self._rng.sample(list(self.kinds), len(self.kinds))
            kind = kinds.pop()
            due = time.monotonic() + every
            self.struck.append((time.monotonic() - self._begun, kind))
            self.kinds[kind]()
            self._wait_for_brokers()
            time.sleep(max(0.0, min(due, end) - time.monotonic()))

    def end(self) -> None:
        for broker in BROKERS:
            tampering = self._cluster.tampering(broker)
            tampering.skew, tampering.disk_full = 0.0, False
            tampering.close()
        self._wait_for_brokers()

    def _wait_for_brokers(self) -> None:
        """Wait until every broker accepts connections."""

        def all_answer() -> bool:
            try:
                return all(self._cluster.certificate(each) for each in BROKERS)
            except OSError:
                return False

        wait_until(all_answer, "all brokers answer again")

    def _linger(self, most: float) -> None:
        time.sleep(self._rng.uniform(0.2, most))

    def _kill(self, *brokers: int) -> None:
        with contextlib.ExitStack() as stack:
            for broker in brokers:
                stack.enter_context(self._cluster.down(broker))
            self._linger(3)

    def _pause(self, sessions: float) -> None:
        pid = self._cluster.broker_pid(self._rng.choice(BROKERS))
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(SESSION_SECONDS * sessions)
        finally:
            os.kill(pid, signal.SIGCONT)

    def _fill_disk(self) -> None:
        """Fill a disk to the last byte, if this machine allows mounting one."""
        if not self._has_small_disk:
            self._refuse_writes()
            return
        filler = self._cluster.data / f"broker-{SMALL_DISK}" / "filler"
        with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
            while file.write(bytes(1 << 20)):
                pass
        with contextlib.suppress(OSError), filler.open("ab", buffering=0) as file:
            while file.write(bytes(512)):
                pass
        self._linger(5)
        filler.unlink()

    def _refuse_writes(self) -> None:
        tampering = self._cluster.tampering(self._rng.choice(BROKERS))
        tampering.disk_full = True
        self._linger(5)
        tampering.disk_full = False
        tampering.close()

    def _jump(self) -> None:
        """Move a clock by up to ten minutes in either direction; it stays wrong until its next jump."""
        tampering = self._cluster.tampering(self._rng.choice(BROKERS))
        tampering.skew = self._rng.uniform(-600, 600)
        tampering.close()

    def _renew(self) -> None:
        before = {each: self._cluster.certificate(each) for each in BROKERS}
        subprocess.run(
            [sys.executable, "-m", "ottla", "certs", "renew", "--data", str(self._cluster.data)],
            check=True,
            capture_output=True,
        )
        wait_until(
            lambda: all(self._cluster.certificate(each) != before[each] for each in BROKERS),
            "every broker shows the new certificate",
            60,
        )
