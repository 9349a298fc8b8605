"""Python expressions over messages: their features, and their sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.console.messages.expression import BadExpression, compile_expression

MESSAGE: dict[str, Any] = {
    "key": "order-17",
    "value": {"amount": 12.5, "lines": [{"sku": "a"}, {"sku": "b"}], "name": "Žofie", "none": None},
    "headers": {"trace": "x1"},
    "offset": 17,
    "partition": 3,
    "timestamp": 1_700_000_000_000,
    "topic": "orders",
}


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 12 and value.amount <= 12.5",
        "value['amount'] * 2 == 25",
        "value.lines[1].sku == 'b'",
        "len(value.lines) == 2",
        "'order' in key",
        "key.startswith('order-') and not key.endswith('18')",
        "partition in (1, 2, 3)",
        "matches(value.name, '^Žo')",
        "headers.trace == 'x1'",
        "value.missing is None",
        "value.missing.deeper is None",
        "int(key[-2] + key[-1]) == offset",
        "10 < offset < 20",
        "value.get('amount') == 12.5",
        "lower(value.name) == 'žofie'",
        "-offset == -17",
    ],
)
def test_true_of_the_message(text: str) -> None:
    assert compile_expression(text)(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "value.amount > 'x'",
        "value.none > 1",
        "value.lines > 3",
        "1 / 0",
        "value.lines[9].sku",
        "key * 2 == 3",
    ],
)
def test_what_makes_no_sense_for_a_message_is_not_true_of_it(text: str) -> None:
    assert not compile_expression(text)(MESSAGE)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "().__class__.__bases__",
        "key.__class__",
        "value.__class__",
        "open('/etc/passwd')",
        "eval('1')",
        "[x for x in (1, 2)]",
        "lambda: 1",
        "key.format(1)",
        "'{0.__class__}'.format(1)",
        "f'{key}'",
        "2 ** 99999999",
        "1 << 99999999",
        "(x := 1)",
        "getattr(key, 'x')",
        "key.join(value)",
        "{**value}",
        "b'x'",
        "str(*value)",
        "max(key, key=len)",
        "import os",
        "",
        "1" + " + 1" * 500,
        "9" * 50,
    ],
)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(BadExpression):
        compile_expression(text)
