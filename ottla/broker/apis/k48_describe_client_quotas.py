"""DescribeClientQuotas, key 48: list client quotas.

Behaviour
- Each filter component has an entity type and a name, the default, or any name. `strict` omits entities with further
  types. No components without `strict` means all quotas.

Version notes
- 0 first version (KIP-546); 1 flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work
from ottla.metadata.client_quotas import CLIENT_ID, IP, USER, Entity
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.configs import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ottla.security.acls import DESCRIBE_CONFIGS_CLUSTER


def handle(
    broker: Broker, request: DescribeClientQuotasRequest, context: RequestContext
) -> Work[DescribeClientQuotasResponse]:
    try:
        context.require(DESCRIBE_CONFIGS_CLUSTER)
        exact, of_type = _filter(request.components)
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)
    entries = []
    for count, (entity, quotas) in enumerate(list(broker.image.client_quotas.items()), 1):
        if _matches(entity, exact, of_type, request.strict):
            entries.append(
                EntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    values=[ValueData(key=key, value=value) for key, value in quotas.items()],
                )
            )
        if not count % SLICE:
            yield None
    return DescribeClientQuotasResponse(entries=entries)


def _filter(components: list[ComponentData]) -> tuple[dict[str, str | None], set[str]]:
    exact: dict[str, str | None] = {}
    of_type: set[str] = set()
    for component in components:
        kind, match = component.entity_type, component.match
        if not kind:
            raise _refused("Invalid empty entity type.")
        if kind in exact or kind in of_type:
            raise _refused(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in (USER, CLIENT_ID, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
        match component.match_type:
            case 0 if match is None:
                raise _refused("Request specified MATCH_TYPE_EXACT, but set match string to null.")
            case 1 if match is not None:
                raise _refused("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
            case 2 if match is not None:
                raise _refused("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
            case 0 | 1:
                exact[kind] = match
            case 2:
                of_type.add(kind)
            case _:
                raise _refused(f"Unknown match type {component.match_type}")
    if IP in {*exact, *of_type} and len(components) > 1:
        raise _refused(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    return exact, of_type


def _matches(entity: Entity, exact: dict[str, str | None], of_type: set[str], strict: bool) -> bool:
    names = dict(entity)
    if strict and len(names) != len(exact) + len(of_type):
        return False
    return of_type <= names.keys() and all(kind in names and names[kind] == n for kind, n in exact.items())


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
