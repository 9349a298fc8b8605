"""Settings of topics that are tables: names, defaults and valid values, for brokers and for the table job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

PREFIX = "ottla.table."
FORMAT, CATALOG, NAMESPACE = f"{PREFIX}format", f"{PREFIX}catalog", f"{PREFIX}namespace"
NAME, DEAD_LETTER_NAME = f"{PREFIX}name", f"{PREFIX}dlq.name"
MODE, WRITE_MODE, PARTITION_SPEC = f"{PREFIX}mode", f"{PREFIX}write.mode", f"{PREFIX}partition.spec"
TARGET_LAG_MS = f"{PREFIX}target.lag.ms"
SNAPSHOT_RETENTION_MS, SNAPSHOTS_KEPT = f"{PREFIX}snapshot.retention.ms", f"{PREFIX}snapshot.min.count"
COMPACTION_MIN_FILES, TARGET_FILE_BYTES = f"{PREFIX}compaction.min.files", f"{PREFIX}target.file.bytes"

ICEBERG, DELTA = "iceberg", "delta"
KEY_VALUE, BY_ID, LATEST, JSON = "key_value", "value_schema_id", "value_schema_latest", "json"
APPEND, UPSERT = "append", "upsert"

FORMATS = (ICEBERG, DELTA)
MODES = (KEY_VALUE, BY_ID, LATEST, JSON)
WRITE_MODES = (APPEND, UPSERT)

#: Defaults as text, like in topic configs. A topic without a format is no table.
DEFAULTS = {
    CATALOG: "ottla",
    NAMESPACE: "default",
    # Empty means the name of the topic, and the name of the table with ~dlq.
    NAME: "",
    DEAD_LETTER_NAME: "",
    MODE: KEY_VALUE,
    WRITE_MODE: APPEND,
    PARTITION_SPEC: "",
    TARGET_LAG_MS: "60000",
    SNAPSHOT_RETENTION_MS: "432000000",
    SNAPSHOTS_KEPT: "10",
    COMPACTION_MIN_FILES: "32",
    TARGET_FILE_BYTES: "134217728",
}
_CHOICES = {FORMAT: FORMATS, MODE: MODES, WRITE_MODE: WRITE_MODES}
#: Smallest value of each number.
LEAST = {
    TARGET_LAG_MS: 1,
    SNAPSHOT_RETENTION_MS: -1,
    SNAPSHOTS_KEPT: 1,
    COMPACTION_MIN_FILES: 0,
    TARGET_FILE_BYTES: 1 << 20,
}
CATALOG_PATTERN = r"[A-Za-z0-9_-]+"
CATALOG_EXPECTS = "a name of letters, digits, _ and -"
NAMESPACE_PATTERN = r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*"
NAMESPACE_EXPECTS = "names of letters, digits, _ and -, separated by dots"
#: Catalogs have rules of their own, which forbid more.
NAME_PATTERN = r"[^\s/\\]*"
NAME_EXPECTS = "a name without blanks and slashes"

SPEC_EXPECTS = "a list such as day(__timestamp), bucket(16, customer), region"
_TIME_TRANSFORMS = ("year", "month", "day", "hour")
_SIZED_TRANSFORMS = ("bucket", "truncate")
_COLUMN = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_SPEC_FIELD = re.compile(
    rf"\s*(?:(?P<plain>{_COLUMN})|(?P<name>[a-z]+)\s*\(\s*(?:(?P<size>\d+)\s*,\s*)?(?P<column>{_COLUMN})\s*\))\s*(?:,|\Z)"
)


class TableSettingError(ValueError):
    """A setting is invalid. The message is one sentence."""


class PartitionField(NamedTuple):
    column: str
    #: identity, year, month, day, hour, bucket or truncate.
    transform: str = "identity"
    size: int = 0

    @property
    def name(self) -> str:
        """Return the name of the partition column, as Spark's Iceberg writer chooses it."""
        short = self.column.replace(".", "_")
        suffixes = {"bucket": "bucket", "truncate": "trunc"}
        if self.transform == "identity":
            return short
        return f"{short}_{suffixes.get(self.transform, self.transform)}"


def parse_partition_spec(text: str) -> tuple[PartitionField, ...]:
    """Parse fields such as `day(__timestamp), region`. Raises ValueError with a reason."""
    text = text.strip()
    if text.startswith("(") and text.endswith(")"):
        text = text[1:-1].strip()
    fields: list[PartitionField] = []
    position = 0
    while position < len(text):
        found = _SPEC_FIELD.match(text, position)
        if found is None:
            raise ValueError(f"it must be {SPEC_EXPECTS}")
        fields.append(_partition_field(found))
        position = found.end()
    if text.endswith(","):
        raise ValueError(f"it must be {SPEC_EXPECTS}")
    names = [each.name for each in fields]
    if len(set(names)) < len(names):
        raise ValueError("it names the same partition twice")
    return tuple(fields)


def _partition_field(found: re.Match[str]) -> PartitionField:
    if found["plain"]:
        return PartitionField(found["plain"])
    transform, size = found["name"], int(found["size"] or 0)
    if transform not in ("identity", *_TIME_TRANSFORMS, *_SIZED_TRANSFORMS):
        known = ", ".join(("identity", *_TIME_TRANSFORMS, *_SIZED_TRANSFORMS))
        raise ValueError(f"{transform} is none of {known}")
    if (transform in _SIZED_TRANSFORMS) != (size > 0):
        raise ValueError(
            f"{transform} needs a number, as in {transform}(16, {found['column']})"
            if transform in _SIZED_TRANSFORMS
            else f"{transform} takes no number"
        )
    return PartitionField(found["column"], transform, size)


def contradiction(settings: Mapping[str, str | None]) -> str | None:
    """Return why valid settings do not fit together, or None."""
    if settings.get(FORMAT) != DELTA or not settings.get(PARTITION_SPEC):
        return None
    for field in parse_partition_spec(settings[PARTITION_SPEC] or ""):
        if field.transform != "identity" or "." in field.column:
            return (
                f"{PARTITION_SPEC} of a Delta table names columns only, and not {field.transform}: "
                f"remove it, or use {FORMAT}={ICEBERG}."
            )
    return None


@dataclass(frozen=True)
class TableSettings:
    topic: str
    format: str
    catalog: str = "ottla"
    namespace: str = "default"
    name: str = ""
    dead_letter_name: str = ""
    mode: str = KEY_VALUE
    write_mode: str = APPEND
    partition_spec: tuple[PartitionField, ...] = ()
    target_lag_ms: int = 60_000
    snapshot_retention_ms: int = 432_000_000
    snapshots_kept: int = 10
    compaction_min_files: int = 32
    target_file_bytes: int = 134_217_728

    @property
    def identifier(self) -> tuple[str, ...]:
        return (*self.namespace.split("."), self.name or self.topic)

    @property
    def dead_letter_identifier(self) -> tuple[str, ...]:
        name = self.dead_letter_name or f"{self.name or self.topic}~dlq"
        return (*self.namespace.split("."), name)

    @property
    def is_upsert(self) -> bool:
        return self.write_mode == UPSERT

    @property
    def uses_registry(self) -> bool:
        return self.mode in (BY_ID, LATEST)


def parse_table_settings(topic: str, given: Mapping[str, str | None]) -> TableSettings | None:
    """Parse the settings of a topic, or return None if the topic is no table. Raises TableSettingError."""
    values = {name: value.strip() for name, value in given.items() if value is not None}
    for name in values:
        if name.startswith(PREFIX) and name not in (FORMAT, *DEFAULTS):
            raise TableSettingError(f"Topic {topic} has the unknown setting {name}: remove it.")
    if not values.get(FORMAT):
        return None
    values = DEFAULTS | {name: value for name, value in values.items() if name.startswith(PREFIX)}
    for name, choices in _CHOICES.items():
        if values[name] not in choices:
            raise _invalid(topic, name, values[name], f"it must be one of {', '.join(choices)}")
    for name, pattern, expects in (
        (CATALOG, CATALOG_PATTERN, CATALOG_EXPECTS),
        (NAMESPACE, NAMESPACE_PATTERN, NAMESPACE_EXPECTS),
        (NAME, NAME_PATTERN, NAME_EXPECTS),
        (DEAD_LETTER_NAME, NAME_PATTERN, NAME_EXPECTS),
    ):
        if re.fullmatch(pattern, values[name]) is None:
            raise _invalid(topic, name, values[name], f"it must be {expects}")
    try:
        spec = parse_partition_spec(values[PARTITION_SPEC])
    except ValueError as error:
        raise _invalid(topic, PARTITION_SPEC, values[PARTITION_SPEC], str(error)) from None
    if (reason := contradiction(values)) is not None:
        raise TableSettingError(f"Topic {topic}: {reason}")
    return TableSettings(
        topic,
        values[FORMAT],
        values[CATALOG],
        values[NAMESPACE],
        values[NAME],
        values[DEAD_LETTER_NAME],
        values[MODE],
        values[WRITE_MODE],
        spec,
        *(_number(topic, name, values[name]) for name in LEAST),
    )


def _number(topic: str, name: str, text: str) -> int:
    if re.fullmatch(r"-?\d{1,18}", text) is None or int(text) < LEAST[name]:
        raise _invalid(topic, name, text, f"it must be a whole number of at least {LEAST[name]}")
    return int(text)


def _invalid(topic: str, name: str, value: str, reason: str) -> TableSettingError:
    return TableSettingError(f"Topic {topic} has the invalid value {value} for {name}: {reason}.")
