"""Delegation tokens (KIP-48): create, renew, expire, describe."""

from __future__ import annotations

from ottla.protocol.codec import Request, Response, Struct, array, binary, int16, int32, int64, string

# CreateDelegationToken, key 38


class CreatableRenewers(Struct):
    principal_type: str = string()
    principal_name: str = string()


class CreateDelegationTokenRequest(Request, key=38, versions="1-3", flexible="2+"):
    owner_principal_type: str | None = string("3+", nullable="3+")
    owner_principal_name: str | None = string("3+", nullable="3+")
    renewers: list[CreatableRenewers] = array(CreatableRenewers)
    max_lifetime_ms: int = int64()


class CreateDelegationTokenResponse(Response, key=38, versions="1-3", flexible="2+"):
    error_code: int = int16()
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp_ms: int = int64()
    expiry_timestamp_ms: int = int64()
    max_timestamp_ms: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    throttle_time_ms: int = int32()


# RenewDelegationToken, key 39


class RenewDelegationTokenRequest(Request, key=39, versions="1-2", flexible="2+"):
    hmac: bytes = binary()
    renew_period_ms: int = int64()

    def __repr__(self) -> str:
        return f"RenewDelegationTokenRequest(hmac=…, renew_period_ms={self.renew_period_ms})"


class RenewDelegationTokenResponse(Response, key=39, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


# ExpireDelegationToken, key 40


class ExpireDelegationTokenRequest(Request, key=40, versions="1-2", flexible="2+"):
    hmac: bytes = binary()
    expiry_time_period_ms: int = int64()

    def __repr__(self) -> str:
        return f"ExpireDelegationTokenRequest(hmac=…, expiry_time_period_ms={self.expiry_time_period_ms})"


class ExpireDelegationTokenResponse(Response, key=40, versions="1-2", flexible="2+"):
    error_code: int = int16()
    expiry_timestamp_ms: int = int64()
    throttle_time_ms: int = int32()


# DescribeDelegationToken, key 41


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribeDelegationTokenRequest(Request, key=41, versions="1-3", flexible="2+"):
    owners: list[DescribeDelegationTokenOwner] | None = array(DescribeDelegationTokenOwner, nullable="0+")


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = string()
    principal_name: str = string()


class DescribedDelegationToken(Struct):
    principal_type: str = string()
    principal_name: str = string()
    token_requester_principal_type: str = string("3+")
    token_requester_principal_name: str = string("3+")
    issue_timestamp: int = int64()
    expiry_timestamp: int = int64()
    max_timestamp: int = int64()
    token_id: str = string()
    hmac: bytes = binary()
    renewers: list[DescribedDelegationTokenRenewer] = array(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Response, key=41, versions="1-3", flexible="2+"):
    error_code: int = int16()
    tokens: list[DescribedDelegationToken] = array(DescribedDelegationToken)
    throttle_time_ms: int = int32()
