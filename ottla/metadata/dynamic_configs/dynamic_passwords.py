"""Storage of passwords among a broker's dynamic configurations.

In ZooKeeper they are encrypted as in Kafka 3.9, and require `password.encoder.secret`. A standalone broker stores them
in clear text, like Kafka 4's metadata log, in a file that only its owner can read.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from ottla.metadata import nodes
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.configs.broker_config_table import broker_config_def
from ottla.metadata.password_encoder import PasswordEncoder, PasswordEncoderError
from ottla.metadata.stores.store import BadVersion, NodeStore

logger = logging.getLogger(__name__)

_SECRET, _OLD_SECRET = "password.encoder.secret", "password.encoder.old.secret"


class NoSecret(Exception):
    """The message is Kafka's."""

    def __init__(self) -> None:
        super().__init__("Password encoder secret not configured")


class DynamicPasswords:
    """Converts between stored and effective values. Owner: the event loop."""

    def __init__(self, config: BrokerConfig) -> None:
        """Raises ConfigError if the encoder settings are invalid."""
        self._encrypted = config.zookeeper_connect is not None
        self._encoder = _encoder(config, _SECRET)
        self._known: dict[str, str] = {}  # cache, because decoding is slow by design

    def reveal(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Return the stored configs with decoded passwords. As in Kafka, undecodable passwords are omitted."""
        if not self._encrypted:
            return dict(stored)
        revealed = {}
        for name, text in stored.items():
            if not is_password(name):
                revealed[name] = text
                continue
            try:
                revealed[name] = self._decode(text)
            except (PasswordEncoderError, NoSecret) as error:
                logger.error("Dynamic password config %s could not be decoded, ignoring: %s.", name, error)
        return revealed

    def conceal(
        self, configs: Mapping[str, str], stored: Mapping[str, str], revealed: Mapping[str, str]
    ) -> dict[str, str]:
        """Return the configs to store. Unchanged passwords keep their stored form. Raises NoSecret."""
        if not self._encrypted:
            return dict(configs)
        return {
            name: (
                text
                if not is_password(name)
                else stored[name]
                if name in revealed and revealed[name] == text
                else self._encode(text)
            )
            for name, text in configs.items()
        }

    def _decode(self, text: str) -> str:
        if self._encoder is None:
            raise NoSecret
        password = self._known.get(text)
        if password is None:
            password = self._known[text] = self._encoder.decode(text)
        return password

    def _encode(self, password: str) -> str:
        if self._encoder is None:
            raise NoSecret
        text = self._encoder.encode(password)
        self._known[text] = password
        return text


def is_password(name: str) -> bool:
    definition = broker_config_def(name)
    return definition is not None and definition.sensitive


def _encoder(config: BrokerConfig, secret_name: str) -> PasswordEncoder | None:
    secret = config.get_optional_str(secret_name)
    if not secret:
        return None
    try:
        return PasswordEncoder(
            secret,
            key_factory=config.get_optional_str("password.encoder.keyfactory.algorithm"),
            cipher=config.get_str("password.encoder.cipher.algorithm"),
            key_length=config.get_int("password.encoder.key.length"),
            iterations=config.get_int("password.encoder.iterations"),
        )
    except PasswordEncoderError as error:
        raise ConfigError(f"The settings password.encoder.… cannot be used: {error}.") from None


async def encode_with_new_secret(store: NodeStore, config: BrokerConfig) -> None:
    """Re-encode passwords at startup after a change of the secret, if the old secret still decodes them."""
    old, new = _encoder(config, _OLD_SECRET), _encoder(config, _SECRET)
    if config.zookeeper_connect is None or old is None or new is None:
        return
    path = nodes.broker_config_path(config.broker_id)
    while True:
        [node] = await store.get_many([path])
        stored = {} if node is None else nodes.decode_config(node.data)
        again = {}
        for name in filter(is_password, stored):
            try:
                again[name] = new.encode(old.decode(stored[name]))
            except PasswordEncoderError:
                logger.debug("Dynamic password config %s is not encoded with the old secret", name)
        if node is None or not again:
            return
        try:
            await store.set(path, nodes.encode_config({**stored, **again}), node.version)
        except BadVersion:
            continue
        return
