"""Settings shared by all source connectors and by all sink connectors.

The set of settings depends on the config: each alias in `transforms`, `predicates` and `topic.creation.groups` adds
some. `source_config(config)` and `sink_config(config)` return all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.config.config_def import (
    NO_DEFAULT,
    ConfigDef,
    ConfigType,
    Importance,
    Validator,
    at_least,
    invalid,
    one_of,
    parse_value,
)
from ottla.connect.config.topic_creation import add_topic_settings
from ottla.connect.config.validators import (
    all_of,
    name_of_connector,
    not_null,
    one_of_any_case,
    regex,
    unique,
)
from ottla.connect.converters.loading import converter_class
from ottla.connect.data.java_regex import InvalidPattern, compile_java
from ottla.connect.plugins import PluginKind
from ottla.connect.transforms import chain


def source_config(config: Mapping[str, str]) -> ConfigDef:
    definition = _defined(_COMMON, _SOURCE)
    _add_plugins(definition, config)
    add_topic_settings(definition, config)
    return definition


def sink_config(config: Mapping[str, str]) -> ConfigDef:
    definition = _defined(_COMMON, _SINK)
    _add_plugins(definition, config)
    return definition


def sink_problems(config: Mapping[str, str]) -> dict[str, list[str]]:
    """Return conflicts between individually valid sink settings, by setting name."""
    named = parse_value("topics", config.get("topics"), ConfigType.LIST) or []
    topics = [each for each in named if each]
    pattern = (config.get("topics.regex") or "").strip()
    dead_letters = (config.get("errors.deadletterqueue.topic.name") or "").strip()
    found: dict[str, list[str]] = {}
    if bool(topics) == bool(pattern):
        message = "topics and topics.regex are mutually exclusive options, but both are set."
        if not topics:
            message = "Must configure one of topics or topics.regex"
        found = {"topics": [message], "topics.regex": [message]}
    if topics and len(topics) < len(named):
        found.setdefault("topics", []).append("Configuration 'topics' values must not be empty.")
    begin = f"The DLQ topic '{dead_letters}' may not be"
    if dead_letters and dead_letters in topics:
        shown = f"topics=[{', '.join(topics)}]"
        sentence = f"{begin} included in the list of topics ('{shown}') consumed by the connector"
        found.setdefault("topics", []).append(sentence)
    if dead_letters and pattern and _matches(pattern, dead_letters):
        shown = f"topics.regex={pattern}"
        sentence = f"{begin} matched by the regex for the topics ('{shown}') consumed by the connector"
        found.setdefault("topics.regex", []).append(sentence)
    return found


def _matches(pattern: str, topic: str) -> bool:
    try:
        return compile_java(pattern).fullmatch(topic) is not None
    except InvalidPattern:  # reported for the setting itself
        return False


def _add_plugins(definition: ConfigDef, config: Mapping[str, str]) -> None:
    for alias in dict.fromkeys(chain.aliases(config, "transforms")):
        chain.add_transform_settings(definition, alias, config)
    for alias in dict.fromkeys(chain.aliases(config, "predicates")):
        chain.add_predicate_settings(definition, alias, config)


def _or_null(check: Validator) -> Validator:
    return lambda name, value: None if value is None else check(name, value)


def _not_empty(name: str, value: Any) -> None:
    if not value:
        raise invalid(name, value, "String must be non-empty")


def _converter(name: str, value: Any) -> None:
    header = name == "header.converter"
    converter_class(value, name, PluginKind.HEADER_CONVERTER if header else PluginKind.CONVERTER)


_Row = tuple[str, ConfigType, Any, Importance, str, int, str, str, Validator | None, str]


def _defined(*tables: tuple[_Row, ...]) -> ConfigDef:
    definition = ConfigDef()
    for table in tables:
        for name, kind, default, importance, group, order, width, title, validator, documentation in table:
            definition.define(
                name,
                kind,
                default,
                importance,
                documentation,
                group=group,
                order=order,
                width=width,
                display_name=title,
                validator=validator,
            )
    return definition


_STRING, _INT, _LONG, _LIST = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.LIST
_SHORT, _BOOLEAN, _CLASS = ConfigType.SHORT, ConfigType.BOOLEAN, ConfigType.CLASS
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_ERRORS, _EXACTLY_ONCE = "Error Handling", "Exactly Once Support"
_ALIASES = all_of(not_null, unique)

# Name, type, default, importance, group, place in it, width, title, check, documentation.
# fmt: off
_COMMON: tuple[_Row, ...] = (
    ("name", _STRING, NO_DEFAULT, _HIGH, "Common", 1, "MEDIUM", "Connector name", name_of_connector,
     "The name of the connector, which no other one has."),
    ("connector.class", _STRING, NO_DEFAULT, _HIGH, "Common", 2, "LONG", "Connector class", None,
     "The connector's class: its full name, its alias (FileStreamSink), or module:Class of a Python one."),
    ("connector.plugin.version", _STRING, None, _MEDIUM, "Common", 3, "MEDIUM", "Connector version", None,
     "The version of the connector."),
    ("tasks.max", _INT, 1, _HIGH, "Common", 4, "SHORT", "Tasks max", at_least(1),
     "Maximum number of tasks."),
    ("tasks.max.enforce", _BOOLEAN, True, _LOW, "Common", 5, "SHORT", "Enforce tasks max", None,
     "Whether a connector that asks for more tasks than tasks.max fails. Deprecated."),
    ("key.converter", _CLASS, None, _LOW, "Common", 6, "SHORT", "Key converter class", _or_null(_converter),
     "The converter of keys, with its settings behind key.converter. If it is missing, the worker's is used."),
    ("key.converter.plugin.version", _STRING, None, _LOW, "Common", 7, "SHORT", "Key converter version", None,
     "The version of the key converter."),
    ("value.converter", _CLASS, None, _LOW, "Common", 8, "SHORT", "Value converter class", _or_null(_converter),
     "The converter of values, with its settings behind value.converter. If it is missing, the worker's is used."),
    ("value.converter.plugin.version", _STRING, None, _LOW, "Common", 9, "SHORT", "Value converter version", None,
     "The version of the value converter."),
    ("header.converter", _CLASS, None, _LOW, "Common", 10, "SHORT", "Header converter class", _or_null(_converter),
     "The converter of headers, with its settings behind header.converter. If it is missing, the worker's is used."),
    ("header.converter.plugin.version", _STRING, None, _LOW, "Common", 11, "SHORT", "Header converter version", None,
     "The version of the header converter."),
    ("transforms", _LIST, [], _LOW, "Transforms", 12, "LONG", "Transforms", _ALIASES,
     "Names of transforms, in the order in which they are applied; transforms.NAME.type says what each is."),
    ("predicates", _LIST, [], _LOW, "Predicates", 13, "LONG", "Predicates", _ALIASES,
     "Names of predicates, by which transforms are applied to some records only."),
    ("config.action.reload", _STRING, "restart", _LOW, "Common", 14, "MEDIUM", "Reload Action",
     one_of("none", "restart"),
     "Action when a value of a config provider expires: restart or none."),
    ("errors.retry.timeout", _LONG, 0, _MEDIUM, _ERRORS, 1, "MEDIUM", "Retry Timeout for Errors", None,
     "For how many milliseconds a failed operation is tried again; -1 is forever."),
    ("errors.retry.delay.max.ms", _LONG, 60000, _MEDIUM, _ERRORS, 2, "MEDIUM",
     "Maximum Delay Between Retries for Errors", None, "The longest wait between two attempts, in milliseconds."),
    ("errors.tolerance", _STRING, "none", _MEDIUM, _ERRORS, 3, "SHORT", "Error Tolerance", one_of("none", "all"),
     "none: a record that cannot be processed fails the task. all: it is passed over."),
    ("errors.log.enable", _BOOLEAN, False, _MEDIUM, _ERRORS, 4, "SHORT", "Log Errors", None,
     "Whether errors that are tolerated are logged."),
    ("errors.log.include.messages", _BOOLEAN, False, _MEDIUM, _ERRORS, 5, "SHORT", "Log Error Details", None,
     "Whether the log shows the record as well: where it comes from and, of a source, all of it."),
)

_SOURCE: tuple[_Row, ...] = (
    ("topic.creation.groups", _LIST, [], _LOW, "Topic Creation", 1, "LONG", "Topic Creation Groups", _ALIASES,
     "Names of groups of settings for topics that the connector's records create."),
    ("exactly.once.support", _STRING, "requested", _MEDIUM, _EXACTLY_ONCE, 2, "SHORT", "Exactly once support",
     one_of_any_case("REQUIRED", "REQUESTED"),
     "required: the connector is refused if its source cannot give every record exactly once."),
    ("transaction.boundary", _STRING, "poll", _MEDIUM, _EXACTLY_ONCE, 3, "SHORT", "Transaction Boundary",
     one_of_any_case("INTERVAL", "POLL", "CONNECTOR"),
     "Where transactions end: after each batch of a task (poll), after an interval, or where the connector says."),
    ("transaction.boundary.interval.ms", _LONG, None, _LOW, _EXACTLY_ONCE, 4, "SHORT", "Transaction boundary interval",
     _or_null(at_least(0)),
     "How long a transaction lasts where transaction.boundary is interval; else offset.flush.interval.ms."),
    ("offsets.storage.topic", _STRING, None, _LOW, "offsets.topic", 1, "LONG", "Offsets topic", _or_null(_not_empty),
     "A topic of its own for this connector's offsets, in place of the worker's."),
)

_SINK: tuple[_Row, ...] = (
    ("topics", _LIST, [], _HIGH, "Common", 4, "LONG", "Topics", None, "The topics to read, separated by commas."),
    ("topics.regex", _STRING, "", _HIGH, "Common", 4, "LONG", "Topics regex", regex,
     "A regular expression of Java for the topics to read, in place of topics."),
    ("errors.deadletterqueue.topic.name", _STRING, "", _MEDIUM, _ERRORS, 6, "MEDIUM", "Dead Letter Queue Topic Name",
     None, "The topic for records that were passed over because of an error; none if it is empty."),
    ("errors.deadletterqueue.topic.replication.factor", _SHORT, 3, _MEDIUM, _ERRORS, 7, "MEDIUM",
     "Dead Letter Queue Topic Replication Factor", None,
        "Replication factor of that topic, if it is created."),
    ("errors.deadletterqueue.context.headers.enable", _BOOLEAN, False, _MEDIUM, _ERRORS, 8, "MEDIUM",
     "Enable Error Context Headers", None,
     "Whether those records get headers, beginning with __connect.errors., that say what went wrong."),
)
# fmt: on
