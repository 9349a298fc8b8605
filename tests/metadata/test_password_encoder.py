"""Broker passwords in ZooKeeper, in Kafka 3.9's format."""

from __future__ import annotations

import pytest

from ottla.metadata import nodes
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.dynamic_configs.dynamic_passwords import (
    DynamicPasswords,
    NoSecret,
    encode_with_new_secret,
)
from ottla.metadata.password_encoder import PasswordEncoder, PasswordEncoderError
from ottla.metadata.stores.embedded import EmbeddedStore

JAAS = "listener.name.internal.plain.sasl.jaas.config"


@pytest.mark.parametrize("cipher", ["AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"])
@pytest.mark.parametrize("key_length", [128, 256])
@pytest.mark.parametrize("password", ["", "geheim", "пароль 🔑", "x" * 1000])
def test_what_was_encoded_is_decoded(cipher: str, key_length: int, password: str) -> None:
    encoder = PasswordEncoder("secret", cipher=cipher, key_length=key_length, iterations=1024)
    encoded = encoder.encode(password)
    # Decoding needs only the secret, whatever the current settings.
    assert PasswordEncoder("secret").decode(encoded) == password
    assert encoder.encode(password) != encoded
    if password:
        assert password not in encoded
    with pytest.raises(PasswordEncoderError):
        PasswordEncoder("another").decode(encoded)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "plain",
        "a:b,c:d",
        "keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:!,iterations:1,"
        "initializationVector:AAAA,encryptedPassword:AAAA,passwordLength:1",
        "keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:AAAA,"
        "iterations:2000000000,initializationVector:AAAA,encryptedPassword:AAAA,passwordLength:1",
        "keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:AAAA,"
        "iterations:1024,initializationVector:AAAA,encryptedPassword:AAAA,passwordLength:1",
        "keyFactoryAlgorithm:DES,cipherAlgorithm:AES/CBC/PKCS5Padding,keyLength:128,salt:AAAA,iterations:1,"
        "initializationVector:AAAA,encryptedPassword:AAAA,passwordLength:1",
        "keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:DES/ECB/NoPadding,keyLength:128,salt:AAAA,"
        "iterations:1,initializationVector:AAAA,encryptedPassword:AAAA,passwordLength:1",
    ],
)
def test_what_was_not_encoded_is_an_error_in_a_sentence(text: str) -> None:
    with pytest.raises(PasswordEncoderError) as raised:
        PasswordEncoder("secret").decode(text)
    assert str(raised.value)


# From Kafka 3.9.1, with the secret "ключ-secret": the default, and each with another key length, cipher and key
# factory.
OF_KAFKA = [
    (
        "initializationVector:gkzNS4JtoKIhGsHWe/urYA==,keyLength:128,salt:OhWHNwGcpK7HaP6qyjEJbu2M3nHiw15FNqQ"
        "Y83B2eTI5BCy7Hb3sXEaaSBV8Q0iS+8q+Huz6fpgSawtYVt+f7PGsCDqbvq6rbu2euJxp31yCQMH1bEQsYvXjg8c3ns5T0esMs+c"
        "GVATDQ5d0WKJdkUfu8PteWEv1eo/RVCMTlamilgY1/g2Zf3gndNgNT5+a771zhsWezHBjMRDCmheWKLC1c87IEgnsB1QJ41NT1So"
        "YqAqZnw7gesw5gI1bhac+zgkna7o3KrnyrmEFKRnFElCLYehOxRD4L4EHjyqWZIqWrxQogjI92iCIE9QEjA/OaR7Uiukj/l2VoGv"
        "KRfkk4A==,keyFactoryAlgorithm:PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4"
        "096,passwordLength:11,encryptedPassword:c/U+8oj+MEMhRUzKmWHVoTFkqM83WKUhjd5etSj9RHg="
    ),
    (
        "initializationVector:vFQ3b39MPVks96WD,keyLength:256,salt:jac6dYDhG42l6Isl5Kulstbf1OcU6bIY90KutD69oLT"
        "qmalnEFZGTF3+QtIhoEonoHQd6MKi4ugIAzsIdIP1acTzHpM3cQsuVn9F7qgeAV9MM/4+MyRE33ATF7FU8X/pGO8YSuh+DIBHqF0"
        "CGG1JSkz5d2yovHlHClj/sj1vDxkYZear7AjzEGllOH3K0h3VvYniJo9LXFpdgu4rhkQpXvgFVbqpFQ2p2zo8OFvRGlciQm/efaC"
        "3qOlbKo8jSJ4/fTeA9yFbzs1Izy7BaLxxRxFm9y524OqgEc+a3u7IbGzDX9pGvo6LYrruuKzXDS9aI6f6CESMYK8h+KqYvi0plQ="
        "=,keyFactoryAlgorithm:PBKDF2WithHmacSHA1,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:1"
        "28,iterations:1024,passwordLength:11,encryptedPassword:5ffXwyM/YFFocLA6qmHnjtWxbwqgZXBeYMJKHBHqvcLei"
        "tc="
    ),
    (
        "initializationVector:px8+CALzpILBb0EexmcQog==,keyLength:192,salt:XPsy3T5IKrZsqdn5uuTmMiLxXFSXX7rX7sv"
        "+TLA/Y9QnlIihEw9xqZcC5gYtEpS3mSc66jpDnsr/SeS3zYkfcj5AUMnhjQoeD6UFi/XfKKrFt70mEBZOL0fv21juuY4pW/W4mh/"
        "g1ZuAqpa/UdcPJZZP8cAwwyNAF7XEfZxkCJqtQB+wt42H6xxn/lP4Fl06rt6y/NxTZYuJpNyQREK3oOHbIO4UKwi6ZPAm7sa5DwB"
        "fm3M3Ee7c154KGjRJ1jR6s0ZcIHv1Txb/laBTJ/W/NO37Ov5fJk/Nc7cJuiIoIx1YHGwX8gl4Ew3oDUCREvzYyw4IC9L+JShbzak"
        "tvaBz+w==,keyFactoryAlgorithm:PBKDF2WithHmacSHA256,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:2"
        "048,passwordLength:11,encryptedPassword:5RDhgUqckThFb1Cfmd+kuWJpSpKr9jECKJs9EhQ1+A4="
    ),
]


@pytest.mark.parametrize("encoded", OF_KAFKA)
def test_what_kafka_has_encoded_is_decoded(encoded: str) -> None:
    assert PasswordEncoder("ключ-secret").decode(encoded) == "пароль 🔑 x"
    fields = {field.partition(":")[0] for field in encoded.split(",")}
    cipher = "AES/GCM/NoPadding" if "GCM" in encoded else "AES/CBC/PKCS5Padding"
    ours = PasswordEncoder("s", cipher=cipher).encode("x")
    assert {field.partition(":")[0] for field in ours.split(",")} == fields


def config(**others: str) -> BrokerConfig:
    named = {f"password.encoder.{name.replace('_', '.')}": value for name, value in others.items()}
    return BrokerConfig({"broker.id": "1", "zookeeper.connect": "zk:2181", **named})


def test_passwords_are_encoded_and_nothing_else() -> None:
    passwords = DynamicPasswords(config(secret="s"))
    wanted = {JAAS: "geheim", "log.cleaner.threads": "2", "some.plugin.password": "theirs"}
    stored = passwords.conceal(wanted, {}, {})
    assert stored[JAAS].count(":") == 8
    assert {**stored, JAAS: "geheim"} == wanted
    assert passwords.reveal(stored) == wanted
    # Unchanged values are written back as they were.
    again = passwords.conceal({**wanted, "log.cleaner.threads": "3"}, stored, passwords.reveal(stored))
    assert again == {**stored, "log.cleaner.threads": "3"}


def test_a_password_that_cannot_be_decoded_is_ignored_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stored = DynamicPasswords(config(secret="s")).conceal({JAAS: "geheim"}, {}, {})
    for other in (config(secret="other"), config()):
        caplog.clear()
        assert DynamicPasswords(other).reveal({**stored, "log.cleaner.threads": "2"}) == {
            "log.cleaner.threads": "2"
        }
        assert f"Dynamic password config {JAAS} could not be decoded, ignoring" in caplog.text


def test_without_a_secret_no_password_is_kept_in_zookeeper() -> None:
    with pytest.raises(NoSecret, match="Password encoder secret not configured"):
        DynamicPasswords(config()).conceal({JAAS: "geheim"}, {}, {})


def test_the_file_of_a_broker_on_its_own_has_them_as_they_are() -> None:
    passwords = DynamicPasswords(BrokerConfig())
    assert (
        passwords.conceal({JAAS: "geheim"}, {}, {}) == passwords.reveal({JAAS: "geheim"}) == {JAAS: "geheim"}
    )


def test_a_cipher_that_is_not_known_is_a_sentence() -> None:
    with pytest.raises(ConfigError, match=r"password\.encoder.*ROT13"):
        DynamicPasswords(config(secret="s", cipher_algorithm="ROT13"))


async def test_a_new_secret_takes_over_what_the_old_one_opens(tmp_path) -> None:
    store = EmbeddedStore(tmp_path / "metadata.db")
    await store.create("/config")
    await store.create("/config/brokers")
    path = nodes.broker_config_path(1)
    before = DynamicPasswords(config(secret="old")).conceal(
        {JAAS: "geheim", "log.cleaner.threads": "2"}, {}, {}
    )
    await store.create(path, nodes.encode_config(before))

    changed = config(secret="new", old_secret="old")
    await encode_with_new_secret(store, changed)
    stored = nodes.decode_config((await store.get(path)).data)
    assert DynamicPasswords(config(secret="new")).reveal(stored) == {
        JAAS: "geheim",
        "log.cleaner.threads": "2",
    }

    version = (await store.get(path)).version
    await encode_with_new_secret(store, changed)  # the old secret no longer decodes anything
    assert (await store.get(path)).version == version
    await store.close()
