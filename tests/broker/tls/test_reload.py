"""Promise: a running broker reloads its certificates, and an unusable certificate changes nothing."""

from __future__ import annotations

import logging
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from cryptography import x509

from tests.broker.tls.tls_broker import TlsBroker

pytestmark = pytest.mark.timeout(180)

LOCATION = "listener.name.ssl.ssl.keystore.location"


@pytest.fixture
def tls(tmp_path: Path) -> Iterator[TlsBroker]:
    made = TlsBroker(tmp_path)
    with made.broker:
        yield made


def serial(tls: TlsBroker, listener: str = "SSL") -> int:
    """Return the serial number of the certificate on a new connection."""
    context = tls.context(tls.ann if listener == "MUTUAL" else None)
    with (
        socket.create_connection(("localhost", tls.ports[listener])) as raw,
        context.wrap_socket(raw, server_hostname="localhost") as wrapped,
    ):
        shown = wrapped.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number


def serial_of(file: str) -> int:
    return x509.load_pem_x509_certificate(Path(file).read_bytes()).serial_number


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def alter(tls: TlsBroker, name: str, value: str) -> None:
    admin = AdminClient(tls.client("PLAINTEXT"))
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    [future] = admin.incremental_alter_configs(
        [ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])]
    ).values()
    future.result(30)


def test_a_file_that_changes_is_read_again_and_old_connections_go_on(tls: TlsBroker) -> None:
    before = serial(tls)
    assert before == serial_of(tls.key_store)
    with (
        socket.create_connection(("localhost", tls.ports["SSL"])) as raw,
        tls.context().wrap_socket(raw, server_hostname="localhost") as old,
    ):
        tls.issue("broker", "broker.pem", ["localhost", "127.0.0.1"])
        wait_for(lambda: serial(tls) == serial_of(tls.key_store) != before)
        wait_for(lambda: serial(tls, "MUTUAL") == serial_of(tls.key_store))
        old.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff")
        assert old.recv(4), "the old connection is still served"


def test_alter_configs_reads_the_file_again_even_if_it_has_the_same_name(tls: TlsBroker) -> None:
    alter(tls, LOCATION, tls.key_store)
    tls.issue("broker", "broker.pem", ["localhost", "127.0.0.1"])
    alter(tls, LOCATION, tls.key_store)
    wait_for(lambda: serial(tls) == serial_of(tls.key_store))
    other = tls.issue("broker", "other.pem", ["localhost", "127.0.0.1"])
    alter(tls, LOCATION, other)
    wait_for(lambda: serial(tls) == serial_of(other))


def test_a_broken_file_changes_nothing_and_is_reported_once(
    tls: TlsBroker, caplog: pytest.LogCaptureFixture
) -> None:
    before = serial(tls)

    def reported() -> list[str]:
        return [each.getMessage() for each in caplog.records if "stay as they are" in each.getMessage()]

    with caplog.at_level(logging.ERROR, logger="ottla.broker.security.certificate_reload"):
        tls.write("broker.pem", b"nonsense")
        wait_for(lambda: len(reported()) == 3)  # once per listener
        assert all("ssl.keystore.location" in line for line in reported())
        tls.write("broker.pem", b"other nonsense")
        tls.issue("broker", "broker.pem.new", ["localhost", "127.0.0.1"])
        assert serial(tls) == before
        Path(tls.directory / "broker.pem.new").replace(tls.key_store)
        wait_for(lambda: serial(tls) == serial_of(tls.key_store) != before)
    assert len(reported()) == 3


@pytest.mark.parametrize(
    ("name", "hosts", "sentence"),
    [
        ("somebody", ["localhost", "127.0.0.1"], "CN=somebody instead of CN=broker"),
        ("broker", ["localhost"], "lacks IPAddress 127.0.0.1"),
    ],
)
def test_a_certificate_of_somebody_else_is_refused(
    tls: TlsBroker, name: str, hosts: list[str], sentence: str
) -> None:
    before = serial(tls)
    other = tls.issue(name, "other.pem", hosts)
    with pytest.raises(KafkaException, match=sentence):
        alter(tls, LOCATION, other)
    assert serial(tls) == before


def test_names_may_change_if_that_is_allowed(tmp_path: Path) -> None:
    tls = TlsBroker(tmp_path, **{"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"})
    with tls.broker:
        other = tls.issue("somebody", "other.pem", ["localhost"])
        alter(tls, LOCATION, other)
        wait_for(lambda: serial(tls) == serial_of(other))


def test_alter_configs_is_told_what_is_wrong(tls: TlsBroker) -> None:
    before = serial(tls)
    with pytest.raises(KafkaException, match=r"cannot read /nowhere/store: No such file"):
        alter(tls, LOCATION, "/nowhere/store")
    assert serial(tls) == before
    with pytest.raises(KafkaException, match="only per-listener"):
        alter(tls, "ssl.keystore.location", tls.key_store)


def test_what_was_altered_counts_after_a_restart(tls: TlsBroker) -> None:
    other = tls.issue("broker", "other.pem", ["localhost", "127.0.0.1"])
    for listener in ("ssl", "mutual", "sasl_ssl"):
        alter(tls, f"listener.name.{listener}.ssl.keystore.location", other)
    Path(tls.key_store).unlink()
    tls.broker.restart()
    assert serial(tls) == serial_of(other)


def test_who_is_trusted_can_change(tls: TlsBroker) -> None:
    foreign = tls.issue("bob", "bob.pem", authority=tls.stranger)

    def is_let_in(certificate: str) -> bool:
        try:
            with (
                socket.create_connection(("localhost", tls.ports["MUTUAL"])) as raw,
                tls.context(certificate).wrap_socket(raw, server_hostname="localhost") as wrapped,
            ):
                wrapped.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x01\xff\xff")
                return bool(wrapped.recv(4))
        except (ssl.SSLError, ConnectionError):
            return False

    assert (is_let_in(tls.ann), is_let_in(foreign)) == (True, False)
    alter(tls, "listener.name.mutual.ssl.truststore.location", tls.strangers_ca_file)
    wait_for(lambda: is_let_in(foreign))
    assert not is_let_in(tls.ann)
