"""All that an executor needs to run one task: pickled by the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.connect.api import TopicPartition
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.runtime.compacted_topic import CompactedTopic


@dataclass(frozen=True, slots=True)
class ControlAddress:
    """Where the driver listens, and the secret by which it knows its own tasks."""

    host: str
    port: int
    token: str


@dataclass(frozen=True, slots=True)
class TaskSpec:
    connector: str
    task: int
    #: The run of the connector's tasks to which this one belongs: reports of earlier runs are void.
    run: str
    config: Mapping[str, str]
    task_config: Mapping[str, str]
    worker: WorkerConfig
    control: ControlAddress
    is_sink: bool = False
    #: Of a sink.
    partitions: tuple[TopicPartition, ...] = ()
    #: Of a source: its topics of offsets, as far as the driver has read them.
    offsets: Mapping[str, CompactedTopic] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """As Kafka names tasks in its log."""
        return f"{self.connector}-{self.task}"
