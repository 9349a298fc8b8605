"""Encryption and decryption of values in `ottla produce` and `ottla consume`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ottla.cli.errors import JobError
from ottla.cli.jobs.messages import ConsumedMessage, OutgoingMessage
from ottla.encryption import Decryptor, EncryptionError, Encryptor, open_keys


def encrypting(keys: str, fields: Sequence[str]) -> Callable[[str, OutgoingMessage], OutgoingMessage]:
    try:
        encryptor = Encryptor(open_keys(keys), fields=fields)
    except EncryptionError as error:
        raise JobError(str(error)) from None

    def encrypt(topic: str, message: OutgoingMessage) -> OutgoingMessage:
        try:
            value, headers = encryptor.encrypt(topic, message.value, message.headers)
        except EncryptionError as error:
            raise JobError(str(error)) from None
        return replace(message, value=value, headers=headers)

    return encrypt


def decrypting(
    keys: str, topic: str | None = None, *, allow_plain: bool = False
) -> Callable[[ConsumedMessage], ConsumedMessage]:
    """`topic` is the topic for which values were encrypted, if it differs from the message's topic."""
    try:
        decryptor = Decryptor(open_keys(keys), allow_plain=allow_plain)
    except EncryptionError as error:
        raise JobError(str(error)) from None

    def decrypt(message: ConsumedMessage) -> ConsumedMessage:
        try:
            value, headers = decryptor.decrypt(topic or message.topic, message.value, message.headers)
        except EncryptionError as error:
            place = f"{message.topic}-{message.partition}@{message.offset}"
            raise JobError(f"{place} cannot be decrypted. {error}") from None
        return replace(message, value=value, headers=headers)

    return decrypt
