from __future__ import annotations

import mailbox
from email.message import Message
from pathlib import Path
from typing import Any

from .conftest import Example

SUBJECTS = {"welcome": "Welcome, {name}", "receipt": "Your receipt", "reminder": "A reminder"}


def delivered(maildir: Path) -> list[Message]:
    return list(mailbox.Maildir(maildir, create=False))


def letters(mails: list[Message]) -> list[tuple[str, str]]:
    return sorted((mail["To"], mail["Subject"]) for mail in mails)


def expected(events: list[Any]) -> list[tuple[str, str]]:
    return sorted(
        (value["to"], SUBJECTS[value["letter"]].format(name=value["name"])) for _, _, value, _ in events
    )


def test_each_mail_is_delivered_once_by_the_workers_of_the_partitions(
    example: Example, tmp_path: Path
) -> None:
    maildir = tmp_path / "maildir"
    example.set("spark.example.maildir", str(maildir))
    events = example.events(60, seconds=1)
    for part in (events[:40], events[40:]):
        example.send(part)
        example.run()
    mails = delivered(maildir)
    assert letters(mails) == expected(events)
    assert len({mail["Message-ID"] for mail in mails}) == len(events)
    used = {partition for partition in range(4) if example.broker.records("mails", partition)}
    assert len({mail["X-Worker"] for mail in mails}) == len(used) > 1
    receipt = next(value for _, _, value, _ in events if value["letter"] == "receipt")
    text = f"thank you for your payment of {receipt['amount']} euros"
    assert any(text in mail.get_payload() for mail in mails if mail["To"] == receipt["to"])
