"""Promise: only the holder of the key reads an encrypted value, for its topic, unchanged, or not at all."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import pickle
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security.encryption.decryptor import Decryptor, rewrap
from ottla.security.encryption.encryptor import Encryptor
from ottla.security.encryption.envelope import Envelope, parse
from ottla.security.encryption.headers import HEADER
from ottla.security.encryption.key_provider import BadValue, EncryptionError, KeysUnavailable, NewDataKey

KEY = bytes(range(32))


class Wrapping:
    """Keys in memory. Data keys are numbered; a wrapped key is a version byte and a number byte."""

    def __init__(self, name: str = "main", key: bytes = KEY) -> None:
        self.name = name
        self.key = key
        self.made = self.unwrapped = 0
        self.version = 1
        self.oldest = 1
        self.is_reachable = True

    def _data_key(self, number: int) -> bytes:
        return hashlib.sha256(self.key + bytes((number,))).digest()

    def new_data_key(self) -> NewDataKey:
        if not self.is_reachable:
            raise KeysUnavailable("Nobody answers.")
        self.made += 1
        return NewDataKey(self.name, self._wrapped(self.made), self._data_key(self.made))

    def _wrapped(self, number: int) -> bytes:
        return bytes((self.version, number)) + hmac.digest(self.key, bytes((self.version, number)), "sha256")

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        self.unwrapped += 1
        if not self.is_reachable:
            raise KeysUnavailable("Nobody answers.")
        expected = hmac.digest(self.key, wrapped[:2], "sha256")
        if key_name != self.name or wrapped[2:] != expected or wrapped[0] < self.oldest:
            raise BadValue(f"The key '{key_name}' has not wrapped this.")
        return self._data_key(wrapped[1])

    def rewrap(self, key_name: str, wrapped: bytes) -> bytes:
        self.unwrap(key_name, wrapped)
        return self._wrapped(wrapped[1])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keys() -> Wrapping:
    return Wrapping()


@pytest.fixture
def clock() -> Clock:
    return Clock()


def header_of(headers: Any) -> bytes:
    [value] = [value for name, value in headers if name == HEADER]
    return value


# -- round trips --------------------------------------------------------------------------------------------


@given(
    value=st.binary(),
    topic=st.text(min_size=1, max_size=40),
    more=st.lists(st.tuples(st.text(), st.binary())),
)
def test_what_was_encrypted_is_decrypted(value: bytes, topic: str, more: Any) -> None:
    keys = Wrapping()
    more = [pair for pair in more if pair[0] != HEADER]
    sealed, headers = Encryptor(keys).encrypt(topic, value, more)
    assert sealed is not None
    assert len(sealed) == len(value) + 28
    assert headers[:-1] == more
    assert Decryptor(keys).decrypt(topic, sealed, headers) == (value, more)


def test_the_value_is_aes_256_gcm_as_the_page_says(keys: Wrapping) -> None:
    sealed, headers = Encryptor(keys).encrypt("orders", b"plain")
    assert sealed is not None
    data_key = keys._data_key(1)
    key_id = hmac.digest(data_key, b"ottla.encryption data key id", "sha256")[:16]
    wrapped = keys._wrapped(1)
    header = b"\x01\x01" + key_id + b"\x04main" + len(wrapped).to_bytes(2, "big") + wrapped + b"\x00"
    assert header_of(headers) == header
    covered = b"ottla.encryption" + b"\x01\x01" + key_id + b"\x00\x06orders" + b"\x00"
    assert AESGCM(data_key).decrypt(sealed[:12], sealed[12:], covered) == b"plain"
    by_hand = b"n" * 12 + AESGCM(data_key).encrypt(b"n" * 12, b"other", covered)
    assert Decryptor(keys).decrypt("orders", by_hand, headers).value == b"other"


@pytest.mark.parametrize("headers", [None, [], {}, {"a": b"1"}, [("a", b"1")], (("a", None),)])
def test_headers_are_taken_as_clients_have_them(keys: Wrapping, headers: Any) -> None:
    sealed = Encryptor(keys).encrypt("t", b"x", headers)
    expected = list(headers.items() if isinstance(headers, dict) else headers or [])
    assert Decryptor(keys).decrypt("t", *sealed) == (b"x", expected)


def test_a_tombstone_stays_one(keys: Wrapping) -> None:
    assert Encryptor(keys).encrypt("t", None, [("a", b"1")]) == (None, [("a", b"1")])
    assert Decryptor(keys).decrypt("t", None, [("a", b"1")]) == (None, [("a", b"1")])
    assert keys.made == keys.unwrapped == 0


def test_nothing_is_encrypted_twice(keys: Wrapping) -> None:
    encryptor = Encryptor(keys)
    once = encryptor.encrypt("t", b"x")
    with pytest.raises(EncryptionError, match="already encrypted"):
        encryptor.encrypt("t", *once)


def test_the_same_value_never_looks_the_same(keys: Wrapping) -> None:
    encryptor = Encryptor(keys)
    sealed = [encryptor.seal("t", b"yes")[0] for _ in range(1000)]
    assert len({each[:12] for each in sealed}) == 1000
    assert len({each[12:] for each in sealed}) == 1000


def test_a_forked_process_goes_on_with_nonces_of_its_own(keys: Wrapping) -> None:
    """A pool of random bytes, or a counter, would fail here."""
    encryptor = Encryptor(keys)
    encryptor.seal("t", b"x")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.write(writing, b"".join(encryptor.seal("t", b"x")[0][:12] for _ in range(50)))
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        theirs = pipe.read()
    nonces = {theirs[start : start + 12] for start in range(0, len(theirs), 12)}
    assert len(nonces) == 50
    assert nonces.isdisjoint({encryptor.seal("t", b"x")[0][:12] for _ in range(50)})


# -- rejected input -----------------------------------------------------------------------------------------


@given(value=st.binary(max_size=40), data=st.data())
def test_any_changed_bit_is_refused(value: bytes, data: st.DataObject) -> None:
    keys = Wrapping()
    sealed, header = Encryptor(keys).seal("t", value)
    decryptor = Decryptor(keys)
    assert decryptor.open("t", sealed, header) == value  # from here on the data key is cached
    both = sealed + header
    position = data.draw(st.integers(0, 8 * len(both) - 1))
    changed = bytearray(both)
    changed[position // 8] ^= 1 << position % 8
    with pytest.raises(BadValue):
        decryptor.open("t", bytes(changed[: len(sealed)]), bytes(changed[len(sealed) :]))


@given(value=st.binary(max_size=40), data=st.data())
def test_what_is_truncated_or_longer_is_refused(value: bytes, data: st.DataObject) -> None:
    keys = Wrapping()
    sealed, header = Encryptor(keys).seal("t", value)
    decryptor = Decryptor(keys)
    with pytest.raises(BadValue):
        decryptor.open("t", sealed[: data.draw(st.integers(0, len(sealed) - 1))], header)
    with pytest.raises(BadValue):
        decryptor.open("t", sealed, header[: data.draw(st.integers(0, len(header) - 1))])
    with pytest.raises(BadValue):
        decryptor.open("t", sealed + b"\0", header)
    with pytest.raises(BadValue):
        decryptor.open("t", sealed, header + b"\0")


@given(header=st.binary(max_size=80), value=st.binary(max_size=80))
@settings(max_examples=300)
def test_anything_in_a_header_is_refused_with_a_sentence(header: bytes, value: bytes) -> None:
    for start in (b"", b"\x01\x01"):
        with pytest.raises(BadValue):
            Decryptor(Wrapping()).open("t", value, start + header)


def test_a_value_cannot_be_moved_to_another_topic(keys: Wrapping) -> None:
    record = Encryptor(keys).encrypt("salaries", b"100")
    with pytest.raises(BadValue, match="another topic"):
        Decryptor(keys).decrypt("lunches", *record)
    # One topic name may not be a prefix of another either.
    record = Encryptor(keys).encrypt("a", b"100")
    with pytest.raises(BadValue, match="another topic"):
        Decryptor(keys).decrypt("a\0", *record)


def test_another_key_does_not_do() -> None:
    record = Encryptor(Wrapping()).encrypt("t", b"x")
    with pytest.raises(BadValue, match="'main'"):
        Decryptor(Wrapping(key=bytes(32))).decrypt("t", *record)
    with pytest.raises(BadValue, match="'main'"):
        Decryptor(Wrapping(name="other")).decrypt("t", *record)


def test_a_data_key_cannot_be_exchanged_for_another_one(keys: Wrapping) -> None:
    encryptor = Encryptor(keys, records_per_key=1)
    first, second = (encryptor.seal("t", b"x") for _ in range(2))
    exchanged = parse(first[1])._replace(wrapped_key=parse(second[1]).wrapped_key)
    with pytest.raises(BadValue, match="does not match its header"):
        Decryptor(keys).open("t", first[0], exchanged.encode())


def test_plain_values_are_taken_only_if_that_was_said(keys: Wrapping) -> None:
    with pytest.raises(BadValue, match="not encrypted"):
        Decryptor(keys).decrypt("t", b"plain")
    lenient = Decryptor(keys, allow_plain=True)
    assert lenient.decrypt("t", b"plain").value == b"plain"
    sealed, headers = Encryptor(keys).encrypt("t", b"x")
    assert sealed is not None
    with pytest.raises(BadValue):
        lenient.decrypt("t", sealed[:-1], headers)


def test_two_headers_are_refused(keys: Wrapping) -> None:
    sealed, headers = Encryptor(keys).encrypt("t", b"x")
    with pytest.raises(BadValue, match="2 times"):
        Decryptor(keys).decrypt("t", sealed, headers * 2)


def test_names_of_keys_cannot_lead_anywhere() -> None:
    for name in ("../secret", "a/b", "a?b", ".", "..", "a b", "", "a\n", "ä"):
        envelope = Envelope(bytes(16), name, b"w")
        with pytest.raises(BadValue):
            parse(envelope.encode())


# -- rotation -----------------------------------------------------------------------------------------------


def test_a_data_key_is_replaced_after_so_many_records(keys: Wrapping) -> None:
    encryptor = Encryptor(keys, records_per_key=3)
    records = [encryptor.encrypt("t", str(n).encode()) for n in range(10)]
    assert keys.made == 4
    assert len({header_of(headers) for _, headers in records}) == 4
    decryptor = Decryptor(keys)
    assert [decryptor.decrypt("t", *record).value for record in records] == [b"%d" % n for n in range(10)]
    assert keys.unwrapped == 4


def test_threads_do_not_use_a_data_key_more_often(keys: Wrapping) -> None:
    encryptor = Encryptor(keys, records_per_key=10)
    with ThreadPoolExecutor(4) as threads:
        records = list(threads.map(lambda _: encryptor.seal("t", b"x"), range(1000)))
    used = Counter(header for _, header in records)
    assert set(used.values()) == {10}
    decryptor = Decryptor(keys)
    with ThreadPoolExecutor(4) as threads:
        assert set(threads.map(lambda record: decryptor.open("t", *record), records)) == {b"x"}
    assert keys.unwrapped == len(used)


def test_and_after_so_much_time(keys: Wrapping, clock: Clock) -> None:
    encryptor = Encryptor(keys, seconds_per_key=60, clock=clock)
    for clock.now in (0, 59.9, 60, 100, 120.1):
        encryptor.encrypt("t", b"x")
    assert keys.made == 3


def test_every_topic_has_its_own(keys: Wrapping) -> None:
    encryptor = Encryptor(keys)
    assert header_of(encryptor.encrypt("a", b"x")[1]) != header_of(encryptor.encrypt("b", b"x")[1])
    assert keys.made == 2


@pytest.mark.parametrize(
    "settings", [{"records_per_key": 0}, {"records_per_key": 2**32 + 1}, {"seconds_per_key": 0}]
)
def test_a_data_key_cannot_be_used_for_ever(keys: Wrapping, settings: Any) -> None:
    with pytest.raises(EncryptionError, match="must be"):
        Encryptor(keys, **settings)


def test_who_loses_access_loses_it_in_time(keys: Wrapping, clock: Clock) -> None:
    record = Encryptor(keys).encrypt("t", b"x")
    decryptor = Decryptor(keys, seconds_per_key=60, clock=clock)
    decryptor.decrypt("t", *record)
    keys.is_reachable = False
    clock.now = 59.9
    assert decryptor.decrypt("t", *record).value == b"x"
    clock.now = 60
    with pytest.raises(KeysUnavailable):
        decryptor.decrypt("t", *record)
    keys.is_reachable = True
    assert decryptor.decrypt("t", *record).value == b"x", "that nobody answered is not remembered"
    decryptor.forget()
    keys.is_reachable = False
    with pytest.raises(KeysUnavailable):
        decryptor.decrypt("t", *record)


def test_data_keys_whose_time_is_over_are_not_kept(keys: Wrapping, clock: Clock) -> None:
    encryptor = Encryptor(keys, records_per_key=1)
    decryptor = Decryptor(keys, seconds_per_key=60, clock=clock)
    for clock.now in (0, 50, 100, 170):
        decryptor.decrypt("t", *encryptor.encrypt("t", b"x"))
    assert [known.until for known in decryptor._known.values()] == [230]


def test_so_many_data_keys_are_kept_and_no_more(keys: Wrapping) -> None:
    encryptor = Encryptor(keys, records_per_key=1)
    records = [encryptor.encrypt("t", b"x") for _ in range(5)]
    decryptor = Decryptor(keys, most_keys=2)
    for record in records * 2:
        decryptor.decrypt("t", *record)
    assert len(decryptor._known) == 2


def test_bad_records_are_not_one_request_each(keys: Wrapping) -> None:
    record = Encryptor(keys).encrypt("t", b"x")
    keys.oldest = 2
    decryptor = Decryptor(keys)
    for _ in range(100):
        with pytest.raises(BadValue):
            decryptor.decrypt("t", *record)
    assert keys.unwrapped == 1


def test_a_data_key_is_wrapped_anew_without_touching_the_value(keys: Wrapping) -> None:
    sealed, headers = Encryptor(keys).encrypt("t", b"x", [("a", b"1")])
    keys.version = 2
    assert Decryptor(keys).decrypt("t", sealed, headers).value == b"x", "the older version still unwraps"
    again = rewrap(keys, headers)
    keys.oldest = 2
    with pytest.raises(BadValue):
        Decryptor(keys).decrypt("t", sealed, headers)
    assert Decryptor(keys).decrypt("t", sealed, again) == (b"x", [("a", b"1")])
    assert rewrap(keys, [("a", b"1")]) == [("a", b"1")]


# -- fields of JSON -----------------------------------------------------------------------------------------

ORDER = (
    '{"id": 7, "card" : "4111 1111", "total": 1.10, "address": {"street":"Main\\u00df 5", "city": "Ulm"} }'
)
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def test_only_the_fields_are_encrypted_and_everything_else_stays_as_it_is(keys: Wrapping) -> None:
    sealed, headers = Encryptor(keys, fields=["card", "address.street"]).encrypt("t", ORDER.encode())
    assert sealed is not None
    document = json.loads(sealed)
    assert document["id"] == 7
    assert document["address"]["city"] == "Ulm"
    assert b'"total": 1.10,' in sealed
    assert b"4111" not in sealed
    assert b"Main" not in sealed
    assert Decryptor(keys).decrypt("t", sealed, headers).value == ORDER.encode()


@given(document=st.fixed_dictionaries({"a": DOCUMENTS, "b": DOCUMENTS}), ascii=st.booleans())
def test_any_document_comes_back_to_the_byte(document: Any, ascii: bool) -> None:
    keys = Wrapping()
    text = json.dumps(document, ensure_ascii=ascii).encode("utf-8", "surrogatepass")
    try:
        text.decode()
    except UnicodeDecodeError:
        return
    record = Encryptor(keys, fields=["a", "missing"]).encrypt("t", text)
    assert Decryptor(keys).decrypt("t", *record).value == text


def test_any_changed_bit_of_a_field_is_refused() -> None:
    keys = Wrapping()
    # At this length, the last Base64 character has insignificant bits.
    sealed, header = Encryptor(keys, fields=["a"]).seal("t", b'{"a":"secrets"}')
    decryptor = Decryptor(keys)
    assert decryptor.open("t", sealed, header) == b'{"a":"secrets"}'
    for position in range(8 * 5, 8 * (len(sealed) - 1)):
        changed = bytearray(sealed)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(BadValue):
            decryptor.open("t", bytes(changed), header)


def test_a_field_that_is_there_twice_is_encrypted_twice(keys: Wrapping) -> None:
    text = b'{"a": 1, "\\u0061": 2, "b": null}'
    sealed, headers = Encryptor(keys, fields=["a", "b"]).encrypt("t", text)
    assert sealed is not None
    assert b" 1," not in sealed
    assert b" 2," not in sealed
    assert b"null" in sealed
    assert Decryptor(keys).decrypt("t", sealed, headers).value == text


def test_a_field_cannot_be_moved_to_another_one(keys: Wrapping) -> None:
    sealed, headers = Encryptor(keys, fields=["a", "b"]).encrypt("t", b'{"a": "1", "b": "2"}')
    assert sealed is not None
    document = json.loads(sealed)
    moved = json.dumps({"a": document["b"], "b": document["a"]}).encode()
    with pytest.raises(BadValue, match="changed"):
        Decryptor(keys).decrypt("t", moved, headers)
    with pytest.raises(BadValue, match="another topic"):
        Decryptor(keys).decrypt("u", sealed, headers)
    for plain in (b'{"a": "1"}', b'{"a": 1}', b'{"a": []}', b"[]", b'"x"', b'{"a"', b"\xff"):
        with pytest.raises(BadValue):
            Decryptor(keys).decrypt("t", plain, headers)


@pytest.mark.parametrize(
    "value",
    [b"", b"text", b"[1]", b'{"a": 1} x', b'{"a": {"b": 1}', b'{"a": "text"}', b'{"a": [{"b": 1}]}', b"\xff"],
)
def test_what_has_no_such_field_to_encrypt_is_not_written_plain(keys: Wrapping, value: bytes) -> None:
    with pytest.raises(EncryptionError, match="cannot be encrypted") as raised:
        Encryptor(keys, fields=["a.b"]).encrypt("t", value)
    assert "text" not in str(raised.value)


@pytest.mark.parametrize(
    "fields", [["a", "a.b"], ["a.b", "a"], [""], ["a..b"], ["."], [str(n) for n in range(300)]]
)
def test_fields_that_cannot_be_are_refused(keys: Wrapping, fields: list[str]) -> None:
    with pytest.raises(EncryptionError):
        Encryptor(keys, fields=fields)


def test_a_header_cannot_leave_out_a_field(keys: Wrapping) -> None:
    sealed, header = Encryptor(keys, fields=["a", "b"]).seal("t", b'{"a": "1", "b": "2"}')
    for others in (("a",), ("a", "c"), ("b", "a")):
        with pytest.raises(BadValue):
            Decryptor(keys).open("t", sealed, parse(header)._replace(fields=others).encode())
    impossible = parse(header)._replace(fields=("a", "a.b"))
    with pytest.raises(BadValue):
        Decryptor(keys).open("t", sealed, impossible.encode())


# -- secrets ------------------------------------------------------------------------------------------------


def test_keys_and_values_are_in_no_repr_and_no_error(keys: Wrapping) -> None:
    encryptor, decryptor = Encryptor(keys), Decryptor(keys)
    new = keys.new_data_key()
    sealed, headers = encryptor.encrypt("t", b"the secret value")
    decryptor.decrypt("t", sealed, headers)
    shown = [repr(each) for each in (new, encryptor, decryptor, *decryptor._known.values())]
    fields = Encryptor(keys, fields=["a"])
    for attempt in (
        lambda: decryptor.decrypt("u", sealed, headers),
        lambda: fields.encrypt("t", b'{"a": "the secret value'),
        lambda: fields.encrypt("t", b"the secret value \xff"),
    ):
        with pytest.raises(EncryptionError) as raised:
            attempt()
        shown += traceback.format_exception(raised.value)
        cause = raised.value.__context__
        while cause is not None:
            shown.append(repr(vars(cause)) + repr(cause.args))
            cause = cause.__context__
    for secret in (keys._data_key(1), keys._data_key(2), new.key):
        assert not any(repr(secret)[2:20] in text or secret.hex() in text for text in shown)
    assert not any("the secret value" in text for text in shown if "test_encryption" not in text)


def test_keys_do_not_leave_their_process(keys: Wrapping) -> None:
    for each in (Encryptor(keys), Decryptor(keys)):
        with pytest.raises(TypeError, match="does not leave its process"):
            pickle.dumps(each)
