"""Promise: the broker and client settings shown in docs/how-to/secure-a-cluster.md work for each mechanism."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.properties import parse_properties
from ottla.security.jaas import ALLOWED_URLS
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.issuer import ISSUER, Issuer

pytestmark = pytest.mark.timeout(120)

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "secure-a-cluster.md").read_text()


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as running:
        yield running


def blocks(section: str) -> list[str]:
    """Return the property blocks of a section: the broker's first, then the clients'."""
    [text] = re.findall(rf"^### {section}\n(.*?)(?=^##)", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(r"```properties\n(.*?)```", text, re.DOTALL)


def settings(text: str) -> dict[str, str]:
    return {each.key: each.value for each in parse_properties(text)}


@pytest.mark.parametrize("section", ["SCRAM", "PLAIN", "OAUTHBEARER"])
def test_what_the_page_shows_works(
    section: str, issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, open_to_all = ReservedPorts(2).numbers
    monkeypatch.setenv("KAFKA_OPTS", f"-D{ALLOWED_URLS}={issuer.jwks_url},{issuer.token_url}")

    def here(text: str) -> dict[str, str]:
        text = text.replace("https://login.example.com/keys", issuer.jwks_url)
        text = text.replace("https://login.example.com/token", issuer.token_url)
        return settings(text.replace("=https://login.example.com", f"={ISSUER}"))

    server, *clients = blocks(section)
    if section == "PLAIN":  # the page says "Clients as with SCRAM"
        clients = [
            each.replace("SCRAM-SHA-512", "PLAIN").replace("scram.ScramLogin", "plain.PlainLogin")
            for each in blocks("SCRAM")[1:]
        ]
    config = here(server)
    config["listeners"] = (
        f"{config['listeners'].replace(':9092', f'127.0.0.1:{port}')},PLAINTEXT://127.0.0.1:{open_to_all}"
    )
    with Broker(data=tmp_path, config=config):
        if section == "SCRAM":
            admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{open_to_all}"})
            credential = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
            for done in admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion("ann", credential, b"pencil")]
            ).values():
                done.result(30)
        java, librdkafka = map(here, clients)
        servers = {"bootstrap.servers": f"127.0.0.1:{port}"}
        for properties in (java, librdkafka):
            Cluster(Settings.from_properties({**properties, **servers})).any_connection().close()
        assert AdminClient({**librdkafka, **servers}).list_topics(timeout=30).brokers
