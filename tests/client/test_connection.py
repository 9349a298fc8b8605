"""Promise: a connection matches each response to its request."""

from __future__ import annotations

from ottla.client.connection import Connection
from ottla.client.settings import Settings
from ottla.protocol.messages.cluster import MetadataRequest, MetadataResponse
from ottla.testing import Broker


def test_an_answer_that_nobody_waits_for_is_passed_over(ottla_broker: Broker) -> None:
    ottla_broker.create_topic("waited-for")
    settings = Settings.from_properties({"bootstrap.servers": ottla_broker.bootstrap_servers})
    host, _, port = ottla_broker.bootstrap_servers.rpartition(":")
    with Connection(settings, host, int(port)) as connection:
        connection.send(MetadataRequest(topics=[]), MetadataResponse)
        connection.send(MetadataRequest(topics=[]), MetadataResponse)
        answer = connection.request(MetadataRequest(topics=None), MetadataResponse)
        assert "waited-for" in [topic.name for topic in answer.topics]
        assert connection.is_open
