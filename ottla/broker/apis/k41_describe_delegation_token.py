"""DescribeDelegationToken, key 41: list the tokens of some or all owners, with their secrets.

Behaviour
- Clients see the tokens that they own, requested or may renew. Other tokens require DESCRIBE on the token or
  DESCRIBE_TOKENS on its owner, and are silently omitted otherwise.
- DELEGATION_TOKEN_REQUEST_NOT_ALLOWED as for CreateDelegationToken; DELEGATION_TOKEN_AUTH_DISABLED.

Version notes
- 2 flexible; 3 the requester of the token (KIP-373).
"""

from __future__ import annotations

from ottla.broker.apis.k38_create_delegation_token import check_tokens_allowed
from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct
from ottla.metadata.credentials import DelegationToken
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.sasl import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.security.acls import DESCRIBE_DELEGATION_TOKEN, DESCRIBE_TOKENS_USER
from ottla.security.principal import KafkaPrincipal


def handle(
    broker: Broker, request: DescribeDelegationTokenRequest, context: RequestContext
) -> Work[DescribeDelegationTokenResponse]:
    def may_see(token: DelegationToken) -> bool:
        return context.allows(DESCRIBE_DELEGATION_TOKEN, token.token_id) or context.allows(
            DESCRIBE_TOKENS_USER, token.owner
        )

    owners = None
    if request.owners is not None:
        owners = yield from distinct(
            str(KafkaPrincipal(each.principal_type, each.principal_name)) for each in request.owners
        )
    try:
        check_tokens_allowed(context)
        found = broker.delegation_tokens.described(context.principal, owners, may_see)
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    response = DescribeDelegationTokenResponse()
    for token in found:
        response.tokens.append(_described(broker, token))
        if not len(response.tokens) % SLICE:
            yield None
    return response


def _described(broker: Broker, token: DelegationToken) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    requester_type, _, requester_name = token.requester.partition(":")
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issued_at,
        expiry_timestamp=token.expires_at,
        max_timestamp=token.max_at,
        token_id=token.token_id,
        hmac=broker.delegation_tokens.hmac(token),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in token.renewers)
        ],
    )
