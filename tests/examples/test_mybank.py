from __future__ import annotations

from datetime import timedelta
from typing import Any

from .conftest import START, Example


def alerts(events: list[Any]) -> list[tuple[int, float]]:
    above: dict[str, float] = {}
    expected = []
    for topic, account, value, _ in events:
        if topic == "thresholds":
            above[account] = value["above"]
        elif account in above and value["amount"] > above[account]:
            expected.append((value["payment"], above[account]))
    return sorted(expected)


def found(example: Example) -> list[tuple[int, float]]:
    return sorted((value["payment"], value["above"]) for value in example.values("alerts"))


def test_payments_above_what_the_owner_said_by_then_make_an_alert(example: Example) -> None:
    events = example.events(300, seconds=20)
    example.send(events[:200])
    example.run()
    assert found(example) == alerts(events[:200])
    example.send(events[200:])
    example.run()
    assert found(example) == alerts(events)


def test_a_lower_threshold_makes_no_alert_of_a_payment_of_the_past(example: Example) -> None:
    def at(minute: int) -> Any:
        return START + timedelta(minutes=minute)

    def payment(number: int, minute: int) -> Any:
        value = {"payment": number, "account": "NL00", "amount": 80, "at": at(minute).isoformat()}
        return "payments", "NL00", value, at(minute)

    def threshold(above: int, minute: int) -> Any:
        return (
            "thresholds",
            "NL00",
            {"account": "NL00", "above": above, "at": at(minute).isoformat()},
            at(minute),
        )

    example.send([threshold(100, 0), payment(1, 1), threshold(50, 2)])
    example.run()
    assert found(example) == []
    example.send([payment(2, 3)])
    example.run()
    assert found(example) == [(2, 50)]
