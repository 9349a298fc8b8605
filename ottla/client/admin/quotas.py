"""Quotas of users, clients and addresses: describe, set, delete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.routing import ask_controller
from ottla.client.cluster import Cluster
from ottla.client.errors import check_accepted
from ottla.protocol.messages import configs as messages

# Entity of a quota: user, client-id or ip → a name, or None for the default.
Entity = Mapping[str, str | None]

ANY = object()
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Quota:
    entity: dict[str, str | None]
    values: dict[str, float]


def describe_quotas(cluster: Cluster, entity: Mapping[str, object]) -> list[Quota]:
    """Return the quotas of exactly these kinds; ANY matches every name of a kind."""
    components = []
    for kind, name in entity.items():
        if name is ANY:
            components.append(messages.ComponentData(entity_type=kind, match_type=_SPECIFIED, match=None))
        elif name is None:
            components.append(messages.ComponentData(entity_type=kind, match_type=_DEFAULT, match=None))
        else:
            components.append(messages.ComponentData(entity_type=kind, match_type=_EXACT, match=str(name)))
    request = messages.DescribeClientQuotasRequest(components=components, strict=True)
    answer = cluster.any_connection().request(request, messages.DescribeClientQuotasResponse)
    check_accepted("The quota", answer)
    return [
        Quota(
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or []
    ]


def alter_quotas(
    cluster: Cluster,
    entity: Entity,
    *,
    set_: Mapping[str, float] | None = None,
    delete: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    changes = [messages.OpData(key=key, value=value) for key, value in (set_ or {}).items()]
    changes += [messages.OpData(key=key, remove=True) for key in delete]
    request = messages.AlterClientQuotasRequest(
        entries=[
            messages.AlterEntryData(
                entity=[
                    messages.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
                ],
                ops=changes,
            )
        ],
        validate_only=validate_only,
    )
    ask_controller(
        cluster,
        request,
        messages.AlterClientQuotasResponse,
        lambda answer: check_accepted("The quota", *answer.entries),
    )
