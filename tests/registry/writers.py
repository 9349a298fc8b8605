"""Clients that register schemas continuously, and the responses they received."""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable

from tests.registry.conftest import Api, record


def wait_until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


class Writer(threading.Thread):
    """Registers schemas continuously with any responding node, and records the responses."""

    def __init__(self, number: int, urls: list[str], stopping: threading.Event) -> None:
        super().__init__()
        self._number = number
        self._apis = [Api(url) for url in urls]
        self._stopping = stopping
        self.registered: dict[str, tuple[int, str]] = {}  # subject → id and record name

    def run(self) -> None:
        count = 0
        while not self._stopping.is_set():
            count += 1
            subject, name = f"w{self._number}-{count}", f"W{self._number}_{count}"
            while not self._stopping.is_set():
                try:
                    answer = self._apis[count % len(self._apis)].register(subject, record(name, "x"))
                except OSError:
                    count += 1  # the node is down: try the other with the next schema
                    break
                if answer.status == 200:
                    self.registered[subject] = (answer.body["id"], name)
                    break
                assert answer.status == 500, answer


def check(registered: dict[str, tuple[int, str]], api: Api) -> None:
    """Check that every acknowledged schema exists, and that each id denotes one schema."""
    by_id = defaultdict(set)
    for subject, (schema_id, name) in registered.items():
        by_id[schema_id].add(name)
        version = api("GET", f"/subjects/{subject}/versions/1")
        assert version.status == 200, (subject, version)
        assert version.body["id"] == schema_id
        assert json.loads(version.body["schema"])["name"] == name
    assert {schema_id: names for schema_id, names in by_id.items() if len(names) > 1} == {}
