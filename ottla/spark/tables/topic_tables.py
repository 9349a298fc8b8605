"""Which topics are tables: by their configs at the broker, or by a file for brokers that refuse such configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ottla.client.admin.configs import Resource, describe_many
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.table_settings import FORMAT, PREFIX, TableSettingError, TableSettings, parse_table_settings

_TOPIC = "topic."
_CATALOG = "catalog."


@dataclass(frozen=True)
class TablesFile:
    """Settings of topics and properties of catalogs."""

    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    catalogs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def read_tables_file(path: Path) -> TablesFile:
    """Read YAML with `topics` and `catalogs`, or properties such as topic.orders.ottla.table.format."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ClientError(f"Cannot read the tables in {path}: {error.strerror}.") from None
    if path.suffix in (".yaml", ".yml"):
        return _yaml(path, data)
    return _properties(path, data)


def _yaml(path: Path, data: bytes) -> TablesFile:
    import yaml

    try:
        given = yaml.safe_load(data) or {}
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ClientError(f"The tables in {path} are not YAML: {reason}.") from None
    if not isinstance(given, dict) or set(given) - {"topics", "catalogs"}:
        raise ClientError(f"The tables in {path} must be under 'topics' and 'catalogs'.")
    return TablesFile(_mappings(path, given, "topics"), _mappings(path, given, "catalogs"))


def _mappings(path: Path, given: Mapping[str, Any], part: str) -> dict[str, dict[str, str]]:
    found = given.get(part) or {}
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ClientError(f"'{part}' in {path} must have a name with settings for each entry.")
    return {
        str(name): {str(key): _text(value) for key, value in each.items()} for name, each in found.items()
    }


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _properties(path: Path, data: bytes) -> TablesFile:
    from ottla import properties

    topics: dict[str, dict[str, str]] = {}
    catalogs: dict[str, dict[str, str]] = {}
    try:
        for each in properties.parse_properties(properties.decode_properties(data)):
            topic, found, setting = each.key.removeprefix(_TOPIC).partition(f".{PREFIX}")
            if each.key.startswith(_TOPIC) and found:
                topics.setdefault(topic, {})[PREFIX + setting] = each.value.strip()
                continue
            name, dot, setting = each.key.removeprefix(_CATALOG).partition(".")
            if not each.key.startswith(_CATALOG) or not dot:
                raise ClientError(
                    f"{path}, line {each.line}: {each.key} is neither topic.NAME.{FORMAT} nor catalog.NAME.uri."
                )
            catalogs.setdefault(name, {})[setting] = each.value.strip()
    except properties.PropertiesError as error:
        raise ClientError(f"The tables in {path} cannot be read: {error}.") from None
    return TablesFile(topics, catalogs)


def topic_tables(cluster: Cluster, file: TablesFile | None = None) -> tuple[list[TableSettings], list[str]]:
    """Return the settings of all table topics, and a sentence for each topic with invalid settings."""
    given: dict[str, Mapping[str, str | None]] = dict(file.topics if file is not None else {})
    topics = cluster.topics()
    names = [name for name, topic in sorted(topics.items()) if not topic.is_internal]
    resources = [Resource("topic", name) for name in names]
    if resources:
        for resource, entries in describe_many(cluster, resources, synonyms=False).items():
            configs = {each.name: each.value for each in entries if each.name.startswith(PREFIX)}
            if configs:
                given[resource.name] = {**configs, **given.get(resource.name, {})}
    found: list[TableSettings] = []
    wrong: list[str] = []
    for topic in sorted(given):
        try:
            settings = parse_table_settings(topic, given[topic])
        except TableSettingError as error:
            wrong.append(str(error))
            continue
        if settings is None:
            continue
        if topic not in topics:
            wrong.append(f"Topic {topic} of the tables file does not exist.")
        else:
            found.append(settings)
    return found, wrong


def table_of(cluster: Cluster, topic: str, file: TablesFile | None = None) -> TableSettings:
    """Return the settings of one table topic. Raises ClientError if the topic is no table."""
    given: dict[str, str | None] = {}
    if topic in cluster.topics([topic]):
        resource = Resource("topic", topic)
        entries = describe_many(cluster, [resource], synonyms=False)[resource]
        given = {each.name: each.value for each in entries if each.name.startswith(PREFIX)}
    if file is not None:
        given |= file.topics.get(topic, {})
    try:
        settings = parse_table_settings(topic, given)
    except TableSettingError as error:
        raise ClientError(str(error)) from None
    if settings is None:
        raise ClientError(
            f"Topic {topic} is no table: set its config {FORMAT} to iceberg or delta, or name it in --tables FILE."
        )
    return settings
