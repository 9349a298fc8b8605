"""Read and write JSON like Jackson, Confluent's parser, and refuse hostile documents early."""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Any

from ottla.registry.schemas.parsed import InvalidSchema

# A third of Jackson's 1,000: recursive code with two frames per level stays well below Python's limit.
MAX_DEPTH = 350

_COMMENTS = re.compile(r'"(?:[^"\\]|\\.)*"|/\*.*?\*/|//[^\n]*', re.DOTALL)
_CONTROLS = re.compile(r"\\u00[01][0-9a-f]")


def load(text: str, *, comments: bool = False) -> Any:
    """Parse `text`. With `comments`, skip Java comments like Avro's own parser."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise InvalidSchema(f"the JSON is nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        if comments and "/" in text and (without := _without_comments(text)) != text:
            return load(without)
        raise InvalidSchema(f"the text is not valid JSON: {error}") from None
    check_depth(value)
    return value


def dump(value: Any, *, sort_keys: bool = False) -> str:
    """Write compact JSON like Jackson: characters unescaped, numbers in Java's notation."""
    if _has_odd_float(value):
        return _written(value, sort_keys)
    return _dumped(value, sort_keys)


def _dumped(value: Any, sort_keys: bool) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=sort_keys)
    return _CONTROLS.sub(lambda match: match[0][:2] + match[0][2:].upper(), text) if "\\u00" in text else text


def _written(value: Any, sort_keys: bool) -> str:
    """Write without recursion. The stack holds values and the texts between them."""
    out: list[str] = []
    stack: list[tuple[bool, Any]] = [(False, value)]
    while stack:
        is_text, node = stack.pop()
        if is_text:
            out.append(node)
        elif isinstance(node, float):
            out.append(java_double(node))
        elif isinstance(node, dict) and node:
            stack.append((True, "}"))
            names = sorted(node) if sort_keys else list(node)
            for name in reversed(names):
                stack.append((False, node[name]))
                stack.append((True, ("{" if name is names[0] else ",") + _dumped(name, False) + ":"))
        elif isinstance(node, list) and node:
            stack.append((True, "]"))
            for index in reversed(range(len(node))):
                stack.append((False, node[index]))
                stack.append((True, "," if index else "["))
        else:
            out.append(_dumped(node, sort_keys))
    return "".join(out)


def check_depth(value: Any) -> None:
    level = [value]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH + 1:
            raise InvalidSchema(f"the JSON is nested deeper than {MAX_DEPTH} levels")
        deeper: list[Any] = []
        for node in level:
            if isinstance(node, dict):
                deeper.extend(child for child in node.values() if isinstance(child, dict | list))
            elif isinstance(node, list):
                deeper.extend(child for child in node if isinstance(child, dict | list))
        level = deeper


def java_double(value: float) -> str:
    """Format like `Double.toString`: plain between 0.001 and 10,000,000, otherwise scientific."""
    if not math.isfinite(value):
        # Not a JSON number: Jackson writes a string.
        return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return "-0.0" if sign else "0.0"
    exponent += len(digits) - 1
    if -3 <= exponent < 7:
        if exponent < 0:
            body = "0." + "0" * (-exponent - 1) + text
        else:
            whole = text[: exponent + 1].ljust(exponent + 1, "0")
            body = whole + "." + (text[exponent + 1 :] or "0")
    else:
        body = f"{text[0]}.{text[1:] or '0'}E{exponent}"
    return ("-" if sign else "") + body


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _without_comments(text: str) -> str:
    return _COMMENTS.sub(lambda match: match[0] if match[0].startswith('"') else " ", text)


def _has_odd_float(value: Any) -> bool:
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, float):
            if java_double(node) != repr(node):
                return True
        elif isinstance(node, dict):
            stack.extend(node.values())
        elif isinstance(node, list):
            stack.extend(node)
    return False
