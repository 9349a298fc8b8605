"""What Kafka Streams keeps in a cluster for an application, and forgetting it."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING

from ottla.cli.errors import in_kafkas_words
from ottla.cli.jobs.coordinators import Kind, ask_coordinator

if TYPE_CHECKING:
    from ottla.cli.brokers import Node
    from ottla.cli.client import Client
    from ottla.cli.wire import Connection

_INTERNAL = re.compile(
    r".+-(changelog|repartition|subscription-registration-topic|subscription-response-topic"
    r"|KTABLE-FK-JOIN-SUBSCRIPTION-(REGISTRATION|RESPONSE)-\d+-topic)"
)


def internal_topics(application: str, topics: Collection[str]) -> list[str]:
    """Those of `topics` that Kafka Streams made for the application."""
    return [
        name for name in sorted(topics) if name.startswith(f"{application}-") and _INTERNAL.fullmatch(name)
    ]


def remove_members(client: Client, group: str, members: Collection[str]) -> None:
    """Let members that will not come back leave a classic group."""
    from ottla.protocol.messages.groups import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity

    def ask(connection: Connection, _node: Node) -> None:
        request = LeaveGroupRequest(
            group_id=group, members=[MemberIdentity(member_id=member) for member in members]
        )
        answer = connection.request(request, LeaveGroupResponse)
        for code in (answer.error_code, *(each.error_code for each in answer.members)):
            if code:
                raise in_kafkas_words(code, None)

    ask_coordinator(client, Kind.GROUP, group, ask)
