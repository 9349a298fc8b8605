"""Render pages from templates. Everything is escaped; pages cannot contain inline scripts or styles."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import time
from collections.abc import Mapping
from importlib import resources
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

from ottla.console.web.charts import compact, line_chart

_MOST_SHOWN = 100_000
UNKNOWN = "\N{EN DASH}"

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def plain(value: Any) -> Any:
    """Convert to JSON values: dataclasses to their fields, bytes to base64."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(each) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    return value


def number(value: Any) -> str:
    """Format with commas; a dash for unknown values."""
    if value is None:
        return UNKNOWN
    if isinstance(value, float) and value != int(value):
        return f"{value:,.2f}" if abs(value) < 10 else f"{value:,.0f}"
    return f"{int(value):,}"


def size(value: int | None) -> str:
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


def clock(milliseconds: int | None) -> str:
    if milliseconds is None or milliseconds < 0:
        return UNKNOWN
    try:
        seconds = time.gmtime(milliseconds // 1000)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    return time.strftime("%Y-%m-%d %H:%M:%S", seconds) + f".{milliseconds % 1000:03d}"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    if seconds < 1:
        return "< 1 s"
    for limit, unit in ((60, "s"), (3600, "min"), (86400, "h")):
        if seconds < limit:
            divisor = {"s": 1, "min": 60, "h": 3600}[unit]
            amount = seconds / divisor
            return f"{amount:.0f} {unit}" if amount >= 10 or divisor == 1 else f"{amount:.1f} {unit}"
    return f"{seconds / 86400:.1f} d"


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def cut(text: str) -> str:
    """Truncate a message for a page, which cannot hold hundreds of megabytes."""
    if len(text) <= _MOST_SHOWN:
        return text
    return f"{text[:_MOST_SHOWN]}\n… ({len(text) - _MOST_SHOWN:,} more characters: an export has all of it)"


def part(text: Any) -> str:
    return quote(str(text), safe="")


class Static:
    """Scripts and styles, with URLs that change with their content."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes, str]] = {}
        for each in (resources.files("ottla.console") / "static").iterdir():
            kind = _TYPES.get(each.name.rpartition(".")[2])
            if kind is not None:
                data = each.read_bytes()
                self.files[each.name] = (kind, data, hashlib.sha256(data).hexdigest()[:12])

    def url(self, name: str) -> str:
        return f"/static/{name}?v={self.files[name][2]}"


class Templates:
    def __init__(self, static: Static) -> None:
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("ottla.console", "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            number=number,
            size=size,
            clock=clock,
            duration=duration,
            pretty=pretty,
            part=part,
            cut=cut,
            compact=compact,
        )
        self._environment.globals.update(static=static.url, chart=line_chart)

    def render(self, name: str, values: Mapping[str, Any]) -> bytes:
        text: str = self._environment.get_template(name).render(values)
        return text.encode("utf-8", "surrogatepass" if _has_surrogates(text) else "strict")

    def fragment(self, name: str, values: Mapping[str, Any]) -> Markup:
        return Markup(self._environment.get_template(name).render(values))


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
