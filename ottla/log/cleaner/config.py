"""The settings of the log cleaner."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CleanerConfig:
    """The log.cleaner.* settings of a broker, under Kafka's names."""

    threads: int = 1
    backoff_ms: int = 15_000
    dedupe_buffer_size: int = 128 * 1024**2
    io_buffer_size: int = 512 * 1024
    io_buffer_load_factor: float = 0.9
    io_max_bytes_per_second: float = float("inf")
    idle_seconds: float = 60.0
