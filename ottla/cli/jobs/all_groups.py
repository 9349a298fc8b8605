"""Groups of every type, as the brokers list them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError, in_kafkas_words
from ottla.cli.jobs.coordinators import when_ready

if TYPE_CHECKING:
    from ottla.cli.client import Client

_LIST_GROUPS = 16


@dataclass(frozen=True, slots=True)
class AnyGroup:
    group: str
    type: str  # as Kafka writes it: Classic, Consumer, Share, Streams; empty from brokers that do not tell
    protocol: str
    state: str


def list_groups(client: Client, *, types: Iterable[str] = (), states: Iterable[str] = ()) -> list[AnyGroup]:
    """Of all coordinators, each once; only some types or states, if they are named."""
    from ottla.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse

    types, states = list(types), list(states)

    def ask(node: int) -> ListGroupsResponse:
        connection = client.brokers.node(node)
        _, newest = connection.versions.get(_LIST_GROUPS, (0, -1))
        if types and newest < 5:
            raise JobError(f"Broker {node} is too old to tell the types of groups apart.")
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        answer = connection.request(request, ListGroupsResponse)
        if answer.error_code:
            raise in_kafkas_words(answer.error_code, None)
        return answer

    found: dict[str, AnyGroup] = {}
    for node in client.brokers.nodes():
        answer = when_ready(client, lambda node=node: ask(node))  # type: ignore[misc]
        for each in answer.groups:
            # Brokers write the type in lower case or not; Kafka's tools always with a capital.
            kind = each.group_type.capitalize()
            found.setdefault(
                each.group_id, AnyGroup(each.group_id, kind, each.protocol_type, each.group_state)
            )
    return list(found.values())
