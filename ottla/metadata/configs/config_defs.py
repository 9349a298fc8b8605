"""Configuration definitions: type, default, valid values, update mode; with Kafka's names, codes and errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple

from ottla.table_settings import SPEC_EXPECTS, parse_partition_spec

Value = bool | int | float | str | list[str] | None


class ConfigType(IntEnum):
    """Type codes of DescribeConfigs."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


# Short names for the tables, so that each row fits in a line.
BOOLEAN, STRING, INT, SHORT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.SHORT
LONG, DOUBLE, LIST = ConfigType.LONG, ConfigType.DOUBLE, ConfigType.LIST
CLASS, PASSWORD = ConfigType.CLASS, ConfigType.PASSWORD
INT_MAX, LONG_MAX = str(2**31 - 1), str(2**63 - 1)


class ConfigSource(IntEnum):
    """Source codes of DescribeConfigs. The lowest source wins."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class UpdateMode(Enum):
    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Mark(Enum):
    INTERNAL = "meant for tests, and hidden from DescribeConfigs"
    NO_EFFECT = "known, but nothing reads it"
    UNLISTED = "not of Apache Kafka: shown by DescribeConfigs only where it is set"


PER_BROKER, CLUSTER_WIDE = UpdateMode.PER_BROKER, UpdateMode.CLUSTER_WIDE
INTERNAL, NO_EFFECT, UNLISTED = Mark.INTERNAL, Mark.NO_EFFECT, Mark.UNLISTED


class InvalidValue(ValueError):
    """A value rejected by its definition. The message is Kafka's, since tools match on it."""

    @classmethod
    def of(cls, name: str, value: object, reason: str) -> InvalidValue:
        return cls(f"Invalid value {value} for configuration {name}: {reason}")


class Validator:
    """Rejects values. `expects` describes valid values and completes a sentence that begins with "give"."""

    @property
    def expects(self) -> str:
        raise NotImplementedError

    def check(self, name: str, value: Value) -> None:
        raise NotImplementedError

    def check_kept(self, name: str, value: Value) -> None:
        """Check a previously stored value: values accepted by Kafka 3.9 remain valid."""
        self.check(name, value)


class Range(Validator):
    def __init__(
        self,
        low: int | None = None,
        high: int | None = None,
        also: int | None = None,
        once_low: int | None = None,
    ) -> None:
        self.low = low
        self.high = high
        self.also = also  # additional valid value outside the range
        self.once_low = once_low  # lower bound in Kafka 3.9

    @property
    def expects(self) -> str:
        parts = []
        if self.low is not None and self.high is not None:
            parts.append(f"from {self.low} to {self.high}")
        elif self.low is not None:
            parts.append(f"of at least {self.low}")
        elif self.high is not None:
            parts.append(f"of at most {self.high}")
        if self.also is not None:
            parts.append(f"or {self.also}")
        return " ".join(parts)

    def check(self, name: str, value: Value) -> None:
        if value is None:
            return
        assert isinstance(value, int | float)
        shown = format_value(value)
        if self.also is not None:
            assert self.low is not None
            assert self.high is not None
            if not (self.low <= value <= self.high or value == self.also):
                raise InvalidValue.of(
                    name, shown, f"Value must be between {self.low} and {self.high} or equal to {self.also}"
                )
            return
        if self.low is not None and value < self.low:
            raise InvalidValue.of(name, shown, f"Value must be at least {self.low}")
        if self.high is not None and value > self.high:
            raise InvalidValue.of(name, shown, f"Value must be no more than {self.high}")

    def check_kept(self, name: str, value: Value) -> None:
        Range(self.low if self.once_low is None else self.once_low, self.high, self.also).check(name, value)


def refuse_empty(name: str, values: list[str]) -> None:
    if "" in values:
        raise InvalidValue(f"Configuration '{name}' values must not be empty.")


class OneOf(Validator):
    """Accepts one of the given strings, or a list of them."""

    def __init__(self, values: tuple[str, ...], ignore_case: bool = False) -> None:
        self.values = values
        self.ignore_case = ignore_case

    @property
    def expects(self) -> str:
        return "one of " + ", ".join(self.values)

    def check(self, name: str, value: Value) -> None:
        if value is None:
            return
        if isinstance(value, list):
            refuse_empty(name, value)
        for member in value if isinstance(value, list) else [value]:
            assert isinstance(member, str)
            if (member.upper() if self.ignore_case else member) not in self.values:
                case = " (case insensitive)" if self.ignore_case else ""
                raise InvalidValue.of(name, member, f"String must be one of{case}: {', '.join(self.values)}")


class NoDuplicates(Validator):
    @property
    def expects(self) -> str:
        return "a list in which nothing is empty or comes twice"

    def check(self, name: str, value: Value) -> None:
        if value is None:
            return
        assert isinstance(value, list)
        refuse_empty(name, value)
        if len(set(value)) != len(value):
            raise InvalidValue(f"Configuration '{name}' values must not be duplicated.")


class Pattern(Validator):
    def __init__(self, pattern: str, expects: str) -> None:
        self._pattern = re.compile(pattern)
        self._expects = expects

    @property
    def expects(self) -> str:
        return self._expects

    def check(self, name: str, value: Value) -> None:
        if not isinstance(value, str) or self._pattern.fullmatch(value) is None:
            raise InvalidValue.of(name, str(value), f"it must be {self._expects}")


class PartitionSpec(Validator):
    """Partitions of a table."""

    @property
    def expects(self) -> str:
        return SPEC_EXPECTS

    def check(self, name: str, value: Value) -> None:
        try:
            parse_partition_spec(str(value or ""))
        except ValueError as error:
            raise InvalidValue.of(name, value, str(error)) from None


class ThrottledReplicas(Validator):
    @property
    def expects(self) -> str:
        return "* or a list of partition:broker pairs"

    def check(self, name: str, value: Value) -> None:
        assert isinstance(value, list)
        if value == ["*"] or all(re.fullmatch("[0-9]+:[0-9]+", replica) for replica in value):
            return
        raise InvalidValue.of(
            name,
            f"[{', '.join(value)}]",
            f"{name} must be the literal '*' or a list of replicas in the following format: "
            "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
        )


class ConfigDef(NamedTuple):
    name: str
    type: ConfigType
    default: str | None  # as text, as in DescribeConfigs
    validator: Validator | None = None
    documentation: str = ""
    update_mode: UpdateMode = UpdateMode.READ_ONLY
    internal: bool = False
    has_effect: bool = True
    unlisted: bool = False

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def advice(self, refused: str) -> str:
        if self.type in _BITS and _WHOLE.fullmatch(refused.strip()) and len(refused) > 4:
            limit = 1 << _BITS[self.type]
            if len(refused) > 40 or not -limit <= int(refused) < limit:
                return f"{_EXPECTS[self.type]} from {-limit} to {limit - 1}"
        specific = self.validator.expects if self.validator else ""
        if isinstance(self.validator, Range):
            return f"{_EXPECTS[self.type]} {specific}"
        return specific or _EXPECTS[self.type]


_EXPECTS = {
    ConfigType.UNKNOWN: "a text",
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "a text",
    ConfigType.INT: "a whole number",
    ConfigType.SHORT: "a whole number",
    ConfigType.LONG: "a whole number",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a list separated by commas",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a text",
}


Row = tuple[str, ConfigType, str | None, Validator | None, str, *tuple[UpdateMode | Mark, ...]]


def config_table(rows: Iterable[Row]) -> dict[str, ConfigDef]:
    """Return definitions by name. A row has the first five fields, then any exceptional ones."""
    table = {}
    for name, type_, default, validator, documentation, *unusual in rows:
        mode = next((each for each in unusual if isinstance(each, UpdateMode)), UpdateMode.READ_ONLY)
        table[name] = ConfigDef(
            name,
            type_,
            default,
            validator,
            documentation,
            mode,
            internal=INTERNAL in unusual,
            has_effect=NO_EFFECT not in unusual,
            unlisted=UNLISTED in unusual,
        )
    return table


# Java's trim() removes all characters up to U+0020, and no others.
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_WHOLE = re.compile(r"[+-]?\d+")
_DOUBLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[dDfF]?|[+-]?Infinity", re.ASCII)
_BITS = {ConfigType.SHORT: 15, ConfigType.INT: 31, ConfigType.LONG: 63}


def parse_value(definition: ConfigDef, text: str | None, *, kept: bool = False) -> Value:
    """Parse a value. Raises InvalidValue. `kept` values were stored earlier, perhaps by Kafka 3.9."""
    value = _parse(definition, text)
    if definition.validator is not None:
        check = definition.validator.check_kept if kept else definition.validator.check
        check(definition.name, value)
    if isinstance(value, list) and isinstance(definition.validator, OneOf):
        return list(dict.fromkeys(value))  # duplicates are allowed and have no effect
    return value


def _parse(definition: ConfigDef, text: str | None) -> Value:
    if text is None:
        return None
    trimmed = text.strip(_JAVA_BLANKS)
    match definition.type:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise InvalidValue.of(definition.name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG:
            limit = 1 << _BITS[definition.type]
            # Limit the number of digits: int() is slow for very long texts, and Python rejects them.
            if len(trimmed) < 40 and _WHOLE.fullmatch(trimmed) and -limit <= int(trimmed) < limit:
                return int(trimmed)
            raise InvalidValue.of(definition.name, text, f"Not a number of type {definition.type.name}")
        case ConfigType.DOUBLE:
            if not _DOUBLE.fullmatch(trimmed):
                raise InvalidValue.of(definition.name, text, "Not a number of type DOUBLE")
            return float(trimmed.rstrip("dDfF")) if "Inf" not in trimmed else float(trimmed)
        case ConfigType.LIST:
            return re.split(r"\s*,\s*", trimmed) if trimmed else []
        case ConfigType.PASSWORD:
            return text
        case _:
            return trimmed


def format_value(value: Value) -> str | None:
    """Return a value's text as Kafka shows it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _format_double(value)
        case list():
            return ",".join(value)
        case _:
            return str(value)


def _format_double(value: float) -> str:
    """Use Java's notation: 0.5, 2.0, 1.0E7, 1.7976931348623157E308."""
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:.17e}".partition("e")
    for digits in range(1, 18):
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        if float(f"{mantissa}e{exponent}") == value:
            break
    return f"{mantissa}E{int(exponent)}"


LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"

_RATES = [ConfigDef(name, LONG, None, Range(0)) for name in (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)]


def wrong_rate(configs: Mapping[str, str]) -> str | None:
    """Return Kafka's message about an invalid rate, or None."""
    try:
        for rate in _RATES:
            parse_value(rate, configs.get(rate.name))
    except InvalidValue as error:
        return str(error)
    return None


class TypedValues:
    """Typed access with one dict lookup. Asking for the wrong type is a bug and raises TypeError."""

    values: Mapping[str, Value]

    def get(self, name: str) -> Value:
        return self.values[name]

    def get_int(self, name: str) -> int:
        value = self.values[name]
        if type(value) is not int:
            raise TypeError(f"{name} is {value!r}, not a whole number")
        return value

    def get_optional_int(self, name: str) -> int | None:
        return None if self.values[name] is None else self.get_int(name)

    def get_float(self, name: str) -> float:
        value = self.values[name]
        if not isinstance(value, float):
            raise TypeError(f"{name} is {value!r}, not a number")
        return value

    def get_bool(self, name: str) -> bool:
        value = self.values[name]
        if not isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}, not a boolean")
        return value

    def get_str(self, name: str) -> str:
        value = self.values[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is {value!r}, not a text")
        return value

    def get_optional_str(self, name: str) -> str | None:
        return None if self.values[name] is None else self.get_str(name)

    def get_list(self, name: str) -> list[str]:
        value = self.values[name]
        if not isinstance(value, list):
            raise TypeError(f"{name} is {value!r}, not a list")
        return list(value)
