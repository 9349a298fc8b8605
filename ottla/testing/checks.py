"""Checks that make a test's mistakes visible: misspelt names, and records that differ from the expected ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.metadata.configs.broker_config_table import ALIASES, BROKER_CONFIGS, broker_config_def, is_unused

if TYPE_CHECKING:
    from ottla.testing.broker import Broker


def known_name(name: str, names: Iterable[str], kind: str) -> str:
    """Return the name, or raise ValueError with the nearest known one."""
    known = list(names)
    if name in known:
        return name
    from difflib import get_close_matches  # loaded only after a typo

    by_lower = {each.lower(): each for each in known}
    close = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    hint = f" Did you mean {by_lower[close[0]]!r}?" if close else ""
    raise ValueError(f"There is no {kind} called {name!r}.{hint}")


def check_setting(name: str) -> None:
    """Raise ValueError for a name that is not a setting of a broker."""
    if broker_config_def(name) is None and name not in ALIASES and not is_unused(name):
        known_name(name, BROKER_CONFIGS, "broker setting")


def assert_records(broker: Broker, topic: str, expected: Sequence[Any], partition: int | None) -> None:
    indexes = range(broker.partition_count(topic)) if partition is None else (partition,)
    found = [(record.key, record.value) for index in indexes for record in broker.records(topic, index)]
    has_keys = any(isinstance(each, tuple) for each in expected)
    wanted_lines = [_line(each if isinstance(each, tuple) else (None, each), has_keys) for each in expected]
    found_lines = [_line(each, has_keys) for each in found]
    if wanted_lines == found_lines:
        return
    from difflib import unified_diff

    where = topic if partition is None else f"{topic}-{partition}"
    diff = "\n".join(unified_diff(wanted_lines, found_lines, "expected", f"in {where}", lineterm="", n=2))
    raise AssertionError(f"{where} has {len(found)} records, expected {len(wanted_lines)}:\n{diff}")


def _line(record: tuple[Any, Any], has_keys: bool) -> str:
    key, value = (_shown(part) for part in record)
    return f"{key}: {value}" if has_keys else value


def _shown(part: Any) -> str:
    if isinstance(part, bytes):
        try:
            part = part.decode()
        except UnicodeDecodeError:
            return repr(part)
    return repr(part)
