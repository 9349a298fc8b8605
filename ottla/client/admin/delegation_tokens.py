"""Delegation tokens (KIP-48): create, renew, expire, describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.client.admin.routing import ask_controller
from ottla.client.cluster import Cluster
from ottla.client.errors import check_accepted
from ottla.protocol.messages import sasl as messages
from ottla.security.principal import KafkaPrincipal

_SUBJECT = "The delegation token"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    token_id: str
    hmac: bytes = field(repr=False)
    owner: KafkaPrincipal
    requester: KafkaPrincipal
    renewers: tuple[KafkaPrincipal, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int  # end of renewals


def create_token(
    cluster: Cluster,
    *,
    owner: KafkaPrincipal | None = None,
    renewers: Sequence[KafkaPrincipal] = (),
    max_lifetime_ms: int = -1,
) -> DelegationToken:
    """Create a token for the current user, or for `owner`."""
    request = messages.CreateDelegationTokenRequest(
        owner_principal_type=owner and owner.type,
        owner_principal_name=owner and owner.name,
        renewers=[
            messages.CreatableRenewers(principal_type=each.type, principal_name=each.name)
            for each in renewers
        ],
        max_lifetime_ms=max_lifetime_ms,
    )

    def token(answer: messages.CreateDelegationTokenResponse) -> DelegationToken:
        check_accepted(_SUBJECT, answer)
        own = KafkaPrincipal(answer.principal_type, answer.principal_name)
        return DelegationToken(
            answer.token_id,
            bytes(answer.hmac),
            own,
            _requester(answer, own),
            tuple(renewers),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
        )

    return ask_controller(cluster, request, messages.CreateDelegationTokenResponse, token)


def renew_token(cluster: Cluster, hmac: bytes, period_ms: int = -1) -> int:
    def expiry(answer: messages.RenewDelegationTokenResponse) -> int:
        check_accepted(_SUBJECT, answer)
        return answer.expiry_timestamp_ms

    request = messages.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
    return ask_controller(cluster, request, messages.RenewDelegationTokenResponse, expiry)


def expire_token(cluster: Cluster, hmac: bytes, period_ms: int = -1) -> int:
    """Return the new expiry; a negative period expires the token at once."""

    def expiry(answer: messages.ExpireDelegationTokenResponse) -> int:
        check_accepted(_SUBJECT, answer)
        return answer.expiry_timestamp_ms

    request = messages.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
    return ask_controller(cluster, request, messages.ExpireDelegationTokenResponse, expiry)


def describe_tokens(cluster: Cluster, owners: Sequence[KafkaPrincipal] = ()) -> list[DelegationToken]:
    """Return the tokens of these owners; without owners, all tokens visible to the current user."""
    wanted = [
        messages.DescribeDelegationTokenOwner(principal_type=each.type, principal_name=each.name)
        for each in owners
    ]
    request = messages.DescribeDelegationTokenRequest(owners=wanted or None)
    answer = cluster.any_connection().request(request, messages.DescribeDelegationTokenResponse)
    check_accepted("The delegation tokens", answer)
    return [_described(token) for token in answer.tokens]


def _described(token: messages.DescribedDelegationToken) -> DelegationToken:
    owner = KafkaPrincipal(token.principal_type, token.principal_name)
    return DelegationToken(
        token.token_id,
        bytes(token.hmac),
        owner,
        _requester(token, owner),
        tuple(KafkaPrincipal(each.principal_type, each.principal_name) for each in token.renewers),
        token.issue_timestamp,
        token.expiry_timestamp,
        token.max_timestamp,
    )


def _requester(
    token: messages.CreateDelegationTokenResponse | messages.DescribedDelegationToken, owner: KafkaPrincipal
) -> KafkaPrincipal:
    """Before version 3 the requester was always the owner."""
    if not token.token_requester_principal_type:
        return owner
    return KafkaPrincipal(token.token_requester_principal_type, token.token_requester_principal_name)
