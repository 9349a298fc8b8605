"""Settings of the clients of a connector: those of the worker, of its `producer.` or `consumer.`, and overrides."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.client.settings import Settings
from ottla.spark.connect.config.worker_config import WorkerConfig


def client_properties(worker: WorkerConfig, config: Mapping[str, str], kind: str) -> dict[str, str]:
    """`kind` is producer, consumer or admin."""
    prefix = f"{kind}.override."
    overrides = {
        name.removeprefix(prefix): value for name, value in config.items() if name.startswith(prefix)
    }
    return {**worker.overridden(kind), **overrides}


def consumer_settings(worker: WorkerConfig, config: Mapping[str, str]) -> Settings:
    return Settings.from_properties(client_properties(worker, config, "consumer"), worker.client_id)


def metadata_max_age(worker: WorkerConfig, config: Mapping[str, str]) -> float:
    return int(client_properties(worker, config, "consumer").get("metadata.max.age.ms", "300000")) / 1000
