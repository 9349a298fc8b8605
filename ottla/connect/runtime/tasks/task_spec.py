"""The pickled description of a task, with everything that an executor needs to run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.connect.api import TopicPartition
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.compacted_topic import CompactedTopic


@dataclass(frozen=True, slots=True)
class ControlAddress:
    """The driver's address, and the secret that authenticates its tasks."""

    host: str
    port: int
    token: str


@dataclass(frozen=True, slots=True)
class TaskSpec:
    connector: str
    task: int
    #: Run id. The driver ignores reports of earlier runs.
    run: str
    config: Mapping[str, str]
    task_config: Mapping[str, str]
    worker: WorkerConfig
    control: ControlAddress
    is_sink: bool = False
    #: For sinks.
    partitions: tuple[TopicPartition, ...] = ()
    #: For sources: the offsets topics, as far as the driver has read them.
    offsets: Mapping[str, CompactedTopic] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Return the task name that Kafka uses in logs."""
        return f"{self.connector}-{self.task}"
