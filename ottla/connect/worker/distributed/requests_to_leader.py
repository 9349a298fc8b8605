"""Requests of a worker to the leader to store task configs, signed with the group's session key.

Signature and path follow Kafka, so only workers that can read the config topic can send them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from urllib.parse import quote

from ottla.client.errors import ClientError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.worker.config_state import SessionKey

SIGNATURE = "X-Connect-Authorization"
ALGORITHM = "X-Connect-Request-Signature-Algorithm"
_DIGESTS = {"HmacSHA1": "sha1", "HmacSHA256": "sha256", "HmacSHA384": "sha384", "HmacSHA512": "sha512"}
_SECONDS = 10.0


class BadSignature(Exception):
    """The request is not signed with the session key."""


def new_session_key(worker: WorkerConfig) -> SessionKey:
    algorithm = worker.values["inter.worker.key.generation.algorithm"]
    size = worker.values["inter.worker.key.size"] or _size(algorithm) * 8
    key = base64.b64encode(secrets.token_bytes(max(1, size // 8))).decode()
    return SessionKey(key, algorithm, time.time_ns() // 1_000_000)


def _size(algorithm: str) -> int:
    return hashlib.new(_digest(algorithm)).digest_size


def _digest(algorithm: str) -> str:
    if algorithm not in _DIGESTS:
        raise ClientError(f"There is no algorithm {algorithm}: use one of {', '.join(_DIGESTS)}.")
    return _DIGESTS[algorithm]


def sign(key: SessionKey, algorithm: str, body: bytes) -> dict[str, str]:
    made = hmac.new(base64.b64decode(key.key), body, _digest(algorithm)).digest()
    return {SIGNATURE: base64.b64encode(made).decode(), ALGORITHM: algorithm}


def check_signature(
    key: SessionKey | None, allowed: Sequence[str], headers: Mapping[str, str], body: bytes
) -> None:
    """Raises BadSignature. Header names are in lower case."""
    given, algorithm = headers.get(SIGNATURE.lower()), headers.get(ALGORITHM.lower())
    if key is None or not given or not algorithm:
        raise BadSignature("Internal request is missing its signature")
    if algorithm not in allowed:
        raise BadSignature(f"This worker does not support the '{algorithm}' key signing algorithm")
    if not hmac.compare_digest(sign(key, algorithm, body)[SIGNATURE], given):
        raise BadSignature("Internal request contained an invalid signature")


def send_task_configs(
    leader_url: str,
    connector: str,
    configs: Sequence[Mapping[str, str]],
    key: SessionKey,
    worker: WorkerConfig,
) -> None:
    """Raises OSError if the leader is unreachable or rejects the request."""
    body = json.dumps([dict(each) for each in configs]).encode()
    headers = sign(key, worker.values["inter.worker.signature.algorithm"], body)
    request = urllib.request.Request(
        f"{leader_url.rstrip('/')}/connectors/{quote(connector, safe='')}/tasks",
        body,
        {"Content-Type": "application/json", **headers},
        method="POST",
    )
    context = None
    if leader_url.startswith("https:"):
        from ottla.connect.worker.rest.listeners import https_properties
        from ottla.http.tls import client_tls

        context = client_tls(https_properties(worker))
    with urllib.request.urlopen(request, timeout=_SECONDS, context=context):
        pass
