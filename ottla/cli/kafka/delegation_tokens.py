"""`kafka-delegation-tokens`"""

from __future__ import annotations

import argparse
import binascii
import time
from base64 import b64decode, b64encode
from collections.abc import Iterable

from ottla.cli.client import Client
from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.acls import exceptions_named, parse_principals
from ottla.client.admin.delegation_tokens import (
    DelegationToken,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)
from ottla.security.principal import KafkaPrincipal

_ACTIONS = ("create", "renew", "expire", "describe")
# Required and forbidden options of each action, in Kafka's order.
_REQUIRED = {
    "create": ("max-life-time-period",),
    "renew": ("hmac", "renew-time-period"),
    "expire": ("hmac", "expiry-time-period"),
    "describe": (),
}
_EXCLUDED = {
    "create": ("hmac", "renew_time_period", "expiry_time_period"),
    "renew": ("renewer_principal", "max_life_time_period", "expiry_time_period", "owner_principal"),
    "expire": ("renew", "max_life_time_period", "renew_time_period", "owner_principal"),
    "describe": ("renew_time_period", "max_life_time_period", "hmac", "expiry_time_period"),
}
_WIDTHS = (15, 30, 15, 15, 25, 15, 15, 15)
_HEADINGS = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "kafka-delegation-tokens", "Create, renew, expire and describe delegation tokens.", """
        --bootstrap-server, --broker-list
        --command-config
        --create                        create a token
        --renew                         renew a token
        --expire                        expire a token
        --describe                      describe tokens
        --owner-principal TYPE:NAME?*   owner, such as User:ann: with --create another owner than the
                                        requesting user, with --describe only tokens of this owner
        --renewer-principal TYPE:NAME?*  principal that may renew the token, in addition to its owner
        --max-life-time-period MS       with --create: maximum lifetime; -1 means the broker's
                                        delegation.token.max.lifetime.ms
        --renew-time-period MS          with --renew: time until expiry; -1 means the broker's
                                        delegation.token.expiry.time.ms
        --expiry-time-period MS         with --expire: time until expiry; -1 means now
        --hmac HMAC                     HMAC of the token, as shown by --create
        """,
    )  # fmt: skip
    args = parser.options(argv)
    action = _check(args)
    renewers = parse_principals(filter(None, args.renewer_principal))
    owners = parse_principals(filter(None, args.owner_principal))
    client = tool.connect(args)
    with exceptions_named():
        if action == "create":
            _create(client, owners, renewers, args.max_life_time_period)
        elif action == "renew":
            print(
                f"Calling renew token operation with hmac :{args.hmac} , renew-time-period :{args.renew_time_period}"
            )
            _completed(action, renew_token(client.cluster, _hmac(args), args.renew_time_period))
        elif action == "expire":
            print(
                f"Calling expire token operation with hmac :{args.hmac} , expire-time-period :{args.expiry_time_period}"
            )
            _completed(action, expire_token(client.cluster, _hmac(args), args.expiry_time_period))
        else:
            _describe(client, owners)


def _check(args: argparse.Namespace) -> str:
    action = tool.only_one(
        args, _ACTIONS, "Command must include exactly one action: --create, --renew, --expire or --describe"
    )
    tool.required(args, "bootstrap-server", "command-config", *_REQUIRED[action])
    for other in _EXCLUDED[action]:
        if getattr(args, other) not in (None, False, []):
            raise tool.together(action, other)
    return action


def _hmac(args: argparse.Namespace) -> bytes:
    try:
        return b64decode(args.hmac, validate=True)
    except binascii.Error:
        raise JobError("The HMAC is not the base64 that --create has shown.") from None


def _create(
    client: Client, owners: list[KafkaPrincipal], renewers: list[KafkaPrincipal], max_lifetime_ms: int
) -> None:
    print(
        f"Calling create token operation with renewers :{_listed(renewers)} , max-life-time-period :{max_lifetime_ms}",
        flush=True,
    )
    token = create_token(
        client.cluster,
        owner=owners[0] if owners else None,
        renewers=renewers,
        max_lifetime_ms=max_lifetime_ms,
    )
    print(f"Created delegation token with tokenId : {token.token_id}")
    _show([token])


def _describe(client: Client, owners: list[KafkaPrincipal]) -> None:
    if owners:
        print(f"Calling describe token operation for owners: {_listed(owners)}")
    else:
        print("Calling describe token operation for current user.")
    tokens = describe_tokens(client.cluster, owners)
    print(f"Total number of tokens : {len(tokens)}", end="")
    _show(tokens)


def _completed(action: str, expires_ms: int) -> None:
    print(f"Completed {action} operation. New expiry date : {_date(expires_ms)}")


def _show(tokens: Iterable[DelegationToken]) -> None:
    _row(_HEADINGS)
    for token in tokens:
        _row(
            (
                token.token_id,
                b64encode(token.hmac).decode(),
                str(token.owner),
                str(token.requester),
                _listed(token.renewers),
                *map(_date, (token.issued_ms, token.expires_ms, token.ends_ms)),
            )
        )


def _row(cells: Iterable[str]) -> None:
    print("\n" + " ".join(cell.ljust(width) for cell, width in zip(cells, _WIDTHS, strict=True)))


def _listed(principals: Iterable[KafkaPrincipal]) -> str:
    return f"[{', '.join(map(str, principals))}]"


def _date(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(ms / 1000))
