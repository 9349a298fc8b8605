"""A connection to an MQTT broker that reports connection failures in one sentence."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion

from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    between,
    not_empty,
)
from ottla.connect.errors import ConnectError

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_PORTS = {"tcp": 1883, "mqtt": 1883, "ssl": 8883, "tls": 8883, "mqtts": 8883}


def settings() -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "mqtt.server.uri",
            ConfigType.LIST,
            importance=_HIGH,
            documentation="The broker, such as tcp://host:1883.",
            validator=not_empty,
        )
        .define("mqtt.username", ConfigType.STRING, "", _HIGH, "User name.")
        .define("mqtt.password", ConfigType.PASSWORD, "", _HIGH, "Password.")
        .define(
            "mqtt.qos",
            ConfigType.INT,
            0,
            _HIGH,
            "0: at most once, 1 and 2: at least once.",
            validator=between(0, 2),
        )
        .define(
            "mqtt.clean.session.enabled",
            ConfigType.BOOLEAN,
            True,
            _LOW,
            "Let the broker forget a disconnected client.",
        )
        .define(
            "mqtt.connect.timeout.seconds",
            ConfigType.INT,
            30,
            _LOW,
            "Time to wait for the broker.",
            validator=at_least(1),
        )
        .define(
            "mqtt.keepalive.interval.seconds",
            ConfigType.INT,
            60,
            _LOW,
            "Interval of keep-alive messages.",
            validator=at_least(1),
        )
        .define(
            "mqtt.ssl.ca.file",
            ConfigType.STRING,
            "",
            _MEDIUM,
            "File with CA certificates, for ssl://.",
        )
        .define(
            "mqtt.client.id",
            ConfigType.STRING,
            "",
            _LOW,
            "Client id. [default: from the connector's name]",
        )
    )


class MqttConnection:
    """The client's thread calls `on_connect` after each connection and `on_message` for each message."""

    def __init__(
        self,
        parsed: Mapping[str, Any],
        client_id: str,
        on_connect: Callable[[mqtt.Client], None],
        on_message: Callable[[mqtt.MQTTMessage], None],
        *,
        manual_ack: bool = False,
    ) -> None:
        self._settings = parsed
        self._where = parsed["mqtt.server.uri"][0]
        self._answered = threading.Event()
        self._refusal: str | None = None
        self._subscribe = on_connect
        clean = parsed["mqtt.clean.session.enabled"]
        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2, client_id=client_id, clean_session=clean, manual_ack=manual_ack
        )
        if parsed["mqtt.username"]:
            self.client.username_pw_set(parsed["mqtt.username"], parsed["mqtt.password"] or None)
        self.client.on_connect = self._connected
        self.client.on_message = lambda _client, _data, message: on_message(message)

    def open(self) -> None:
        scheme, host, port = _address(self._where)
        seconds = self._settings["mqtt.connect.timeout.seconds"]
        self.client.connect_timeout = seconds
        try:
            if scheme in ("ssl", "tls", "mqtts"):
                self.client.tls_set(self._settings["mqtt.ssl.ca.file"] or None, cert_reqs=ssl.CERT_REQUIRED)
            self.client.connect(host, port, self._settings["mqtt.keepalive.interval.seconds"])
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise ConnectError(
                f"Cannot connect to the MQTT broker at {self._where}: {reason}. "
                "Check mqtt.server.uri and whether it is running."
            ) from None
        self.client.loop_start()
        if not self._answered.wait(seconds):
            raise ConnectError(f"The MQTT broker at {self._where} does not answer.")
        if self._refusal is not None:
            raise ConnectError(
                f"The MQTT broker at {self._where} refuses the connection: {self._refusal}. "
                "Check mqtt.username and mqtt.password."
            )

    def _connected(self, client: mqtt.Client, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self._refusal = str(reason)
        else:
            self._subscribe(client)
        self._answered.set()

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def _address(uri: str) -> tuple[str, str, int]:
    parts = urlsplit(uri if "://" in uri else f"tcp://{uri}")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConnectError(f"mqtt.server.uri {uri!r} is not an address such as tcp://host:1883.")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]
