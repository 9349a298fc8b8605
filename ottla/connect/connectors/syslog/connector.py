"""The source `io.confluent.connect.syslog.SyslogSourceConnector`.

Syslog has no acknowledgements: messages received but not committed are lost when the process dies, as with any syslog
receiver. While the process lives, the source writes each message at least once.
"""

from __future__ import annotations

import datetime as dt
import queue
from collections.abc import Mapping, Sequence

from ottla.connect.api import Config, SourceConnector, SourceTask, SourceTaskContext
from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    between,
    not_empty,
    one_of,
)
from ottla.connect.connectors.syslog.listeners import TcpListener, UdpListener
from ottla.connect.connectors.syslog.messages import KEY, VALUE, parse
from ottla.connect.data.record import SourceRecord
from ottla.connect.data.struct import Struct

_HIGH, _LOW = Importance.HIGH, Importance.LOW
_QUEUE = 50_000


class SyslogSourceConnector(SourceConnector):
    config_def = (
        ConfigDef()
        .define(
            "syslog.port",
            ConfigType.INT,
            importance=_HIGH,
            documentation="The port to listen on.",
            validator=between(0, 65535),
        )
        .define(
            "syslog.listener", ConfigType.STRING, "UDP", _HIGH, "UDP or TCP.", validator=one_of("UDP", "TCP")
        )
        .define("syslog.listen.address", ConfigType.STRING, "0.0.0.0", _LOW, "The address to listen on.")
        .define("topic", ConfigType.STRING, "syslog", _HIGH, "The topic to write to.", validator=not_empty)
        .define(
            "syslog.backoff.millis",
            ConfigType.INT,
            100,
            _LOW,
            "Time to wait for messages.",
            validator=at_least(10),
        )
        .define(
            "syslog.queue.batch.size",
            ConfigType.INT,
            1024,
            _LOW,
            "Maximum messages per poll.",
            validator=at_least(1),
        )
    )
    summary = "messages of devices, by RFC 5424 or RFC 3164"
    exactly_once = False


class SyslogSourceTask(SourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._listener: UdpListener | TcpListener | None = None
        self._settings = settings = SyslogSourceConnector.config_def.parse(config)
        self._messages: queue.Queue[tuple[bytes, str, int]] = queue.Queue(_QUEUE)
        self._count = 0
        kind = TcpListener if settings["syslog.listener"] == "TCP" else UdpListener
        self._listener = kind(settings["syslog.listen.address"], settings["syslog.port"], self._received)
        self._listener.start()

    @property
    def port(self) -> int:
        """Return the listening port, which the system chooses if `syslog.port=0`."""
        assert self._listener is not None
        return self._listener.port

    def _received(self, data: bytes, address: str, port: int) -> None:
        # TCP senders wait while the queue is full.
        self._messages.put((data, address, port))

    def stop(self) -> None:
        listener = getattr(self, "_listener", None)
        if listener is not None:
            self._messages.maxsize = 0
            listener.stop()

    def poll(self) -> Sequence[SourceRecord]:
        found: list[SourceRecord] = []
        wait = min(self._settings["syslog.backoff.millis"] / 1000, 1.0)
        try:
            found.append(self._record(*self._messages.get(timeout=wait)))
            while len(found) < self._settings["syslog.queue.batch.size"]:
                found.append(self._record(*self._messages.get_nowait()))
        except queue.Empty:
            pass
        return found

    def _record(self, data: bytes, address: str, port: int) -> SourceRecord:
        self._count += 1
        now = dt.datetime.now(dt.UTC)
        text = data.decode(errors="replace").rstrip("\r\n\0")
        value = parse(text, address, port, now)
        when = value.get("date") or now
        partition: Mapping[str, int] = {"port": self.port}
        return SourceRecord(
            self._settings["topic"],
            value,
            VALUE,
            Struct(KEY, {"remoteAddress": address}),
            KEY,
            timestamp=int(when.timestamp() * 1000),
            source_partition=partition,
            source_offset={"count": self._count},
        )


SyslogSourceConnector.task_class = SyslogSourceTask
