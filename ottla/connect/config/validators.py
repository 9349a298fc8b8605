"""Validators for single values, with Kafka's error messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ottla.connect.config.config_def import ConfigError, Validator, invalid
from ottla.connect.data.java_regex import InvalidPattern, compile_java


def one_of_any_case(*values: str) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None or str(value).upper() not in {each.upper() for each in values}:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(values)}")

    return check


def non_empty_list(name: str, value: Any) -> None:
    if not value:
        raise invalid(name, _shown(value), "Empty list")


def filled_list(name: str, value: Any) -> None:
    """Kafka's newer list check, whose wording differs from the older one."""
    if not value:
        raise ConfigError(
            f"Configuration '{name}' must not be empty. Valid values include: any non-empty value"
        )


def not_null(name: str, value: Any) -> None:
    if value is None:
        raise invalid(name, value, "entry must be non null")


def regex(name: str, value: Any) -> None:
    try:
        compile_java(value)
    except InvalidPattern as error:
        raise invalid(name, value, f"Invalid regex: {error}") from None


def unique(name: str, value: Any) -> None:
    if len(set(value)) != len(value):
        raise invalid(name, _shown(value), "Duplicate alias provided.")


def all_of(*checks: Validator) -> Validator:
    def check(name: str, value: Any) -> None:
        for each in checks:
            each(name, value)

    return check


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def name_of_connector(name: str, value: Any) -> None:
    """Kafka's non-empty string without ISO control characters."""
    if value is None:
        raise invalid(name, value, "entry must be non null")
    if not value:
        raise invalid(name, value, "String may not be empty")
    if found := sorted({ord(each) for each in _CONTROL.findall(value)}):
        shown = ", ".join(map(str, found))
        raise invalid(
            name,
            value,
            f"String may not contain control sequences but had the following ASCII chars: {shown}",
        )


def _shown(value: Sequence[Any] | None) -> str | None:
    return None if value is None else f"[{', '.join(map(str, value))}]"
