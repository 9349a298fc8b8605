"""Screenshots for the documentation, of a live cluster: `python -m scripts.screenshots`.

It starts a broker with a registry and a Connect worker, fills it, and lets Debian's chromium take pictures of the
console. They are small: colours are reduced where Pillow is installed.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.client.cluster import Cluster
from ottla.client.produce import produce
from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.client.settings import Settings
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.protocol.record_format import Record
from ottla.testing import Broker
from tests.connect.worker.workers import SINK, SOURCE, Worker, standalone_properties

OUT = Path(__file__).parent.parent / "docs" / "images"
TOPICS = {
    "orders": 6,
    "payments": 3,
    "customers": 1,
    "page-views": 12,
    "shipments": 3,
    "machine-events": 1,
    "orders-dead-letters": 1,
}
NAMES = ("Ann", "Bo", "Carol", "Dana", "Emil")
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "customer", "type": "string"}],
}
# Name of the picture, page, scheme and width.
SHOTS = (
    ("console-overview", "overview", "light", 1180),
    ("console-topics", "topics", "light", 1180),
    ("console-messages", "topics/orders/messages?limit=10", "light", 1180),
    ("console-group", "groups/billing/lag", "dark", 1180),
    ("console-flow", "flow", "light", 1180),
    ("console-settings", "topics/orders/settings", "light", 1180),
    ("console-narrow", "topics/orders/partitions", "dark", 375),
)
_FILLING_SECONDS = 25


class Traffic:
    """Orders come in, and a group reads them, at times more slowly than they come."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=each, daemon=True) for each in (self._write, self._read)]
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        self._stopping.set()
        for each in self._threads:
            each.join(20)

    def _write(self) -> None:
        cluster = Cluster(Settings.from_properties({"bootstrap.servers": self._broker.bootstrap_servers}))
        number = 0
        while not self._stopping.wait(0.2):
            for topic in ("orders", "payments", "page-views", "shipments"):
                records = []
                for _ in range(random.randint(5, 40)):
                    number += 1
                    value = {
                        "id": number,
                        "customer": random.choice(NAMES),
                        "amount": round(random.random() * 99, 2),
                    }
                    records.append(
                        Record(
                            0,
                            round(time.time() * 1000),
                            f"{value['customer']}".encode(),
                            json.dumps(value).encode(),
                        )
                    )
                produce(cluster, topic, records)
        cluster.close()

    def _read(self) -> None:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": "billing",
                "client.id": "billing-1",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 500,
            }
        )
        consumer.subscribe(["orders", "payments"])
        slow = time.monotonic() + 8
        while not self._stopping.is_set():
            consumer.consume(60 if time.monotonic() < slow else 400, 0.2)
            self._stopping.wait(0.2)
        consumer.close()


@contextmanager
def running_console() -> Iterator[str]:
    with Broker(
        registry=True, config={"auto.create.topics.enable": "false", "log.retention.hours": "48"}
    ) as broker:
        for topic, partitions in TOPICS.items():
            broker.create_topic(topic, partitions)
        settings = RegistrySettings.from_properties({"schema.registry.url": broker.schema_registry_url})
        with SchemaRegistry(settings) as registry:
            registry.register("orders-value", Schema(json.dumps(ORDER)))
        traffic = Traffic(broker)
        try:
            with connectors(broker) as connect:
                cluster = ClusterSettings(
                    "production",
                    {"bootstrap.servers": broker.bootstrap_servers},
                    broker.schema_registry_url,
                    connect,
                )
                console = ConsoleSettings((cluster,), port=0, lag_seconds=0.5, refresh_seconds=0.5)
                with InBackground(lambda: Console(console), "console") as running:
                    yield f"{running.url}/clusters/production/"
        finally:
            traffic.stop()


@contextmanager
def connectors(broker: Broker) -> Iterator[str]:
    """A Connect worker with a source and a sink of files."""
    with tempfile.TemporaryDirectory(prefix="ottla-screenshots-") as folder:
        events = Path(folder) / "events.txt"
        events.write_text("".join(f"event {number}\n" for number in range(500)))
        with Worker(standalone_properties(broker.bootstrap_servers, f"{folder}/offsets")) as worker:
            worker.wait_until_ready()
            configs = {
                "machine-events": {"connector.class": SOURCE, "topic": "machine-events", "file": str(events)},
                "shipment-archive": {
                    "connector.class": SINK,
                    "topics": "shipments",
                    "file": f"{folder}/archive",
                },
            }
            for name, config in configs.items():
                worker.call("PUT", f"/connectors/{name}/config", config)
                worker.wait_until(name, "RUNNING")
            yield worker.url


def main() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("Screenshots need chromium: apt install chromium.")
    from playwright.sync_api import sync_playwright

    OUT.mkdir(parents=True, exist_ok=True)
    with running_console() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        first = browser.new_page()
        first.goto(f"{url}overview")  # from now on throughput is measured
        time.sleep(_FILLING_SECONDS)
        for name, path, scheme, width in SHOTS:
            page = browser.new_page(
                viewport={"width": width, "height": 720}, color_scheme=scheme, reduced_motion="reduce"
            )
            page.goto(url + path)
            if "messages" in path:
                page.locator("tbody#rows tr summary").nth(1).click()
            page.wait_for_timeout(300)
            file = OUT / f"{name}.png"
            page.screenshot(path=file)
            _shrink(file)
            print(f"{file.relative_to(OUT.parent.parent)} {file.stat().st_size // 1024} KB")
            page.close()
        browser.close()


def _shrink(file: Path) -> None:
    try:
        from PIL import Image
    except ImportError:
        return
    image: Any = Image.open(file)
    image.convert("RGB").quantize(128).save(file, optimize=True)


if __name__ == "__main__":
    main()
