"""AlterUserScramCredentials, key 51: set and delete SCRAM credentials of users.

Behaviour
- Clients send the salted password, and the broker derives the stored credential from it. The broker never sees the
  password itself.
- The response has one result per user, sorted by name. All changes of a user are applied, or none:
  UNACCEPTABLE_CREDENTIAL for too few or too many iterations and for an empty name, UNSUPPORTED_SASL_MECHANISM,
  RESOURCE_NOT_FOUND if there is nothing to delete, DUPLICATE_RESOURCE for a credential changed twice.
- Existing connections stay open, as in Kafka.

Version notes
- 0 is the only version (KIP-554), flexible.
"""

from __future__ import annotations

from itertools import chain

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct, ordered
from ottla.broker.security.scram_users import alter_credentials, mechanism_name, upsertion
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.security.acls import ALTER_CLUSTER

_Change = ScramCredentialDeletion | ScramCredentialUpsertion


async def handle(
    broker: Broker, request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    context.require(ALTER_CLUSTER)
    wanted: dict[str, list[_Change]] = {}
    async for change in context.paced(chain[_Change](request.deletions, request.upsertions)):
        wanted.setdefault(change.name, []).append(change)
    results = []
    async for user in context.ordered(wanted):
        result = AlterUserScramCredentialsResult(user=user)
        try:
            await alter_credentials(broker.store, user, _changes(user, wanted[user]))
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    return AlterUserScramCredentialsResponse(results=results)


def error_response(
    request: AlterUserScramCredentialsRequest, error: KafkaError
) -> Work[AlterUserScramCredentialsResponse]:
    changes = chain[_Change](request.deletions, request.upsertions)
    users = yield from distinct(change.name for change in changes)
    response = AlterUserScramCredentialsResponse()
    for user in (yield from ordered(users)):
        response.results.append(
            AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=error.message)
        )
        if not len(response.results) % SLICE:
            yield None
    return response


def _changes(user: str, wanted: list[_Change]) -> dict[str, str | None]:
    if not user:
        raise KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    changes: dict[str, str | None] = {}
    for each in wanted:
        if isinstance(each, ScramCredentialDeletion):
            name, credential = mechanism_name(each.mechanism), None
        else:
            name, credential = upsertion(
                each.mechanism, each.iterations, bytes(each.salt), bytes(each.salted_password)
            )
        if name in changes:
            raise KafkaError(
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        changes[name] = credential
    return changes
