"""The syslog source over real sockets, and its message parser."""

from __future__ import annotations

import datetime as dt
import logging
import logging.handlers
import socket
from typing import Any

import pytest

from ottla.connect import ConnectError
from ottla.connect.connectors.syslog.connector import SyslogSourceConnector, SyslogSourceTask
from ottla.connect.connectors.syslog.listeners import frames
from ottla.connect.connectors.syslog.messages import parse
from ottla.testing.connect import SourceHarness

NOW = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def port_of(source: SourceHarness) -> int:
    [task] = source._tasks
    assert isinstance(task, SyslogSourceTask)
    return task.port


def config(**settings: str) -> dict[str, str]:
    return {
        "syslog.port": "0",
        "syslog.listen.address": "127.0.0.1",
        "syslog.backoff.millis": "50",
        **{f"syslog.{name}": value for name, value in settings.items()},
    }


def fields(raw: str) -> dict[str, Any]:
    found = parse(raw, "10.0.0.1", 514, NOW)
    return {
        field.name: found.get(field.name)
        for field in found.schema.fields
        if found.get(field.name) is not None
    }


def test_messages_over_udp() -> None:
    with SourceHarness(SyslogSourceConnector, config()) as source:
        handler = logging.handlers.SysLogHandler(("127.0.0.1", port_of(source)), facility="local3")
        logger = logging.getLogger("syslog test")
        logger.addHandler(handler)
        logger.propagate = False
        for number in range(5):
            logger.warning("disk %d is full", number)
        handler.close()
        records = source.run(5)
    assert sorted(record.value.get("message") for record in records) == [
        f"disk {n} is full" for n in range(5)
    ]
    assert {(record.value.get("facility"), record.value.get("severity")) for record in records} == {(19, 4)}
    assert records[0].topic == "syslog"
    assert records[0].key.get("remoteAddress") == "127.0.0.1"


def test_messages_over_tcp_in_both_framings() -> None:
    first = b"<34>1 2026-01-01T10:00:00Z host app 7 ID47 - line\nbreak"
    with SourceHarness(SyslogSourceConnector, config(listener="TCP")) as source:
        with socket.create_connection(("127.0.0.1", port_of(source))) as sender:
            sender.sendall(b"%d %s<13>one\n<13>two\r\n<13>thr" % (len(first), first))
            sender.sendall(b"ee\n<13>last without end")
        records = source.run(5)
    assert [record.value.get("message") for record in records] == [
        "line\nbreak",
        "one",
        "two",
        "three",
        "last without end",
    ]
    assert records[0].timestamp == 1767261600000


def test_rfc_5424() -> None:
    raw = (
        "<165>1 2026-10-11T22:14:15.003Z mymachine.example.com evntslog 17 ID47 "
        '[exampleSDID@32473 iut="3" eventSource="Appli\\"cation\\]"][other@1 a="b"] \ufeffAn event'
    )
    assert fields(raw) == {
        "type": "RFC5424",
        "date": dt.datetime(2026, 10, 11, 22, 14, 15, 3000, dt.UTC),
        "facility": 20,
        "severity": 5,
        "version": 1,
        "host": "mymachine.example.com",
        "appName": "evntslog",
        "processId": "17",
        "messageId": "ID47",
        "structuredData": {
            "exampleSDID@32473": {"iut": "3", "eventSource": 'Appli"cation]'},
            "other@1": {"a": "b"},
        },
        "message": "An event",
        "rawMessage": raw,
        "remoteAddress": "10.0.0.1",
        "remotePort": 514,
    }
    assert fields("<14>1 - - - - - - no more")["message"] == "no more"
    assert "message" not in fields("<14>1 - - - - - -")


def test_rfc_3164() -> None:
    found = fields("<34>Dec 31 22:14:15 mymachine su[99]: 'su root' failed")
    assert found["type"] == "RFC3164"
    assert found["date"] == dt.datetime(2025, 12, 31, 22, 14, 15, tzinfo=dt.UTC), "last year, at New Year"
    assert (found["host"], found["tag"], found["processId"]) == ("mymachine", "su", "99")
    assert found["message"] == "'su root' failed"


@pytest.mark.parametrize("raw", ["hello", "<999>hello", "<14>hello", "<>", "<14", "<14>1 x", "", "\0"])
def test_what_is_no_syslog_is_kept_as_it_is(raw: str) -> None:
    found = fields(raw)
    assert found["type"] == "UNKNOWN"
    assert found["rawMessage"] == raw
    assert raw.endswith(found["message"])


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_frames_are_found_however_they_are_cut(step: int) -> None:
    data = b"5 a\nb c<1>x\n12 123456789012\n\n<2>y\n"
    rest, found = b"", []
    for start in range(0, len(data), step):
        messages, rest = frames(rest + data[start : start + step])
        found += messages
    assert found == [b"a\nb c", b"<1>x", b"123456789012", b"<2>y"]
    assert rest == b""


def test_a_port_that_is_taken_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        harness = SourceHarness(SyslogSourceConnector, {**config(listener="TCP"), "syslog.port": str(port)})
        with pytest.raises(ConnectError, match=f"Cannot listen at 127.0.0.1:{port}: Address already in use"):
            harness.start()
        harness.stop()
