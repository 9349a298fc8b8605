"""Token signing keys, refreshed regularly from their issuer in a separate thread."""

from __future__ import annotations

import logging
import threading
import time
from typing import NamedTuple

from ottla.metadata.configs.broker_config import ConfigError
from ottla.oauth.endpoints import EndpointError, fetch, shown
from ottla.security import bearer_tokens
from ottla.security.bearer_tokens import BadKeys, Key, Rules, UnknownKey
from ottla.security.sasl.oauthbearer import BearerToken
from ottla.security.tls.settings import StoreSettings

logger = logging.getLogger(__name__)

_URL = "sasl.oauthbearer.jwks.endpoint.url"
# An unknown key may be new. This pause stops invented key names from causing constant requests.
_BETWEEN_EARLY_REFRESHES = 10.0
_FIRST_ATTEMPTS = 3


class Refreshing(NamedTuple):
    """URL of the keys and refresh intervals, in seconds."""

    url: str
    every: float
    backoff: float
    max_backoff: float
    trust: StoreSettings | None = None  # default: the certificates trusted by this machine


class IssuerKeys:
    """Invariant: the last fetched keys stay in use until a newer fetch succeeds.

    Owner: the event loop; the thread only replaces the tuple of keys.
    """

    warning: str | None = None

    def __init__(self, refreshing: Refreshing, rules: Rules) -> None:
        self._refreshing = refreshing
        self._rules = rules
        self._keys: tuple[Key, ...] = ()
        self._wake = threading.Event()
        self._closed = False
        self._asked_early = 0.0
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Fetch the keys and start refreshing them. Raises ConfigError. Blocks: call it in a thread."""
        pause = self._refreshing.backoff
        for left in reversed(range(_FIRST_ATTEMPTS)):
            try:
                self._keys = self._fetched()
                break
            except (EndpointError, BadKeys) as error:
                if not left:
                    raise ConfigError(
                        f"Cannot read the keys of {_URL}={shown(self._refreshing.url)}: {error}."
                    ) from None
            time.sleep(pause)
            pause = min(2 * pause, self._refreshing.max_backoff)
        self._thread = threading.Thread(target=self._refresh, name="issuer-keys", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def validate(self, token: str) -> BearerToken:
        try:
            return bearer_tokens.validate(token, self._keys, self._rules)
        except UnknownKey:
            now = time.monotonic()
            if now - self._asked_early >= _BETWEEN_EARLY_REFRESHES or not self._asked_early:
                self._asked_early = now
                self._wake.set()
            raise

    def _fetched(self) -> tuple[Key, ...]:
        document = fetch(
            self._refreshing.url, headers={"Accept": "application/json"}, trust=self._refreshing.trust
        )
        return bearer_tokens.parse_keys(document)

    def _refresh(self) -> None:
        _, every, backoff, max_backoff, _ = self._refreshing
        pause, failed = every, False
        while not self._closed:
            self._wake.wait(pause)
            self._wake.clear()
            if self._closed:
                return
            try:
                self._keys = self._fetched()
            except Exception as error:  # the thread must survive, or keys would never be refreshed again
                if not failed:
                    logger.warning(
                        "Cannot refresh the keys of %s and will try again; those that are known stay in use: %s",
                        shown(self._refreshing.url),
                        error,
                    )
                pause = min(2 * pause, max_backoff) if failed else backoff
                failed = True
            else:
                if failed:
                    logger.info("The keys of %s can be read again", shown(self._refreshing.url))
                pause, failed = every, False
