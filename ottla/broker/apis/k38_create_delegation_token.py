"""CreateDelegationToken, key 38: create a token with which others can log in as its owner.

Behaviour
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for unauthenticated clients, and for clients that logged in with a token.
- The owner is the client, or another user if the client has CREATE_TOKENS on that user; otherwise
  DELEGATION_TOKEN_AUTHORIZATION_FAILED. Owner and renewers must be users; otherwise INVALID_PRINCIPAL_TYPE.
- DELEGATION_TOKEN_AUTH_DISABLED without `delegation.token.secret.key`.
- The store has the token before the response is sent; logins on other brokers work a moment later.

Version notes
- 2 flexible; 3 tokens for another owner (KIP-373).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.sasl import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.security.acls import CREATE_TOKENS_USER
from ottla.security.principal import ANONYMOUS, KafkaPrincipal

_MOST_RENEWERS = 1000


async def handle(
    broker: Broker, request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    requester = context.principal
    owner = _owner(request, requester)
    answer = CreateDelegationTokenResponse(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    try:
        check_tokens_allowed(context)
        if len(request.renewers) > _MOST_RENEWERS:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        if owner != requester and not context.allows(CREATE_TOKENS_USER, str(owner)):
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        renewers = [KafkaPrincipal(each.principal_type, each.principal_name) for each in request.renewers]
        token = await broker.delegation_tokens.create(
            owner, requester, renewers, request.max_lifetime_ms, broker.now_ms()
        )
    except KafkaError as error:
        answer.error_code = error.code
        return answer
    answer.issue_timestamp_ms = token.issued_at
    answer.expiry_timestamp_ms = token.expires_at
    answer.max_timestamp_ms = token.max_at
    answer.token_id = token.token_id
    answer.hmac = broker.delegation_tokens.hmac(token)
    return answer


def _owner(request: CreateDelegationTokenRequest, requester: KafkaPrincipal) -> KafkaPrincipal:
    if not request.owner_principal_name:
        return requester
    return KafkaPrincipal(request.owner_principal_type or "", request.owner_principal_name)


def check_tokens_allowed(context: RequestContext) -> None:
    """Raise KafkaError unless the client has authenticated, and not with a token."""
    login = context.connection.login
    is_anonymous = login is None and context.principal == ANONYMOUS
    if is_anonymous or (login is not None and login.token_id is not None):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
