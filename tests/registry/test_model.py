"""The model: the same records give the same state, compacted or not; each id and version denotes one schema."""

from __future__ import annotations

import hashlib
import json
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.registry.errors import RegistryError
from ottla.registry.model import administration, registration
from ottla.registry.model import registration as deletion
from ottla.registry.model.contracts import (
    Reference,
    content_md5,
    guid_of,
    merge_metadata,
    read_metadata,
    read_rule_set,
)
from ottla.registry.model.records import Key, SchemaVersion, Write, decode_key, encode_key, to_bytes
from ottla.registry.model.registration import Given
from ottla.registry.model.scopes import Defaults, effective_config, effective_mode
from ottla.registry.model.state import State
from ottla.registry.model.subjects import Subject, parse_subject

DEFAULTS = Defaults("NONE")
SUBJECTS = ["a", "b", ":.c:a", ":.c:b"]
SCHEMAS = ['"int"', '"long"', '"string"', '"bytes"', '{"type":"array","items":"int"}']


class Log:
    """The records of a topic, and the resulting state."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.state = State()

    def write(self, writes: Any) -> None:
        for write in writes:
            entry = (encode_key(write.key), None if write.value is None else to_bytes(write.value))
            self.records.append(entry)
            self.state.apply(*entry, len(self.records) - 1, 0)

    def replayed(self, *, compacted: bool = False) -> State:
        last = {key: offset for offset, (key, _) in enumerate(self.records)}
        state = State()
        for offset, (key, value) in enumerate(self.records):
            if not compacted or (last[key] == offset and value is not None):
                state.apply(key, value, offset, 0)
        return state


def seen(state: State) -> dict[str, Any]:
    """Return the complete observable state."""
    return {
        "versions": {
            (each.subject, each.version): (each.id, each.schema, each.deleted)
            for versions in state.subjects.values()
            for each in versions.values()
        },
        "configs": state.configs,
        "modes": state.modes,
        "contexts": state.context_names(),
        "ids": {
            name: {number: sorted(places) for number, places in context.by_id.items()}
            for name, context in state.contexts.items()
            if context.by_id
        },
        "guids": {guid: held for guid, held in state.guids.items() if held},
        "referrers": {place: held for place, held in state.referrers.items() if held},
    }


commands = st.one_of(
    st.tuples(st.just("register"), st.sampled_from(SUBJECTS), st.sampled_from(SCHEMAS)),
    st.tuples(st.just("refer"), st.sampled_from(SUBJECTS), st.sampled_from(["a", "b"])),
    st.tuples(st.just("delete version"), st.sampled_from(SUBJECTS), st.integers(1, 5)),
    st.tuples(st.just("delete version for good"), st.sampled_from(SUBJECTS), st.integers(1, 5)),
    st.tuples(st.just("delete"), st.sampled_from(SUBJECTS), st.none()),
    st.tuples(st.just("delete for good"), st.sampled_from(SUBJECTS), st.none()),
    st.tuples(st.just("config"), st.sampled_from(SUBJECTS), st.sampled_from(["NONE", "BACKWARD"])),
    st.tuples(st.just("mode"), st.sampled_from(SUBJECTS), st.sampled_from(["READWRITE", "READONLY"])),
)


def run(state: State, name: str, subject: str, value: Any) -> Any:
    """Return the records that a command writes."""
    if name == "register":
        return registration.register(state, subject, Given(value), DEFAULTS).writes
    if name == "refer":
        refers = Given('"int"', references=(Reference("x", value, 1),))
        return registration.register(state, subject, refers, DEFAULTS).writes
    if name.startswith("delete version"):
        permanent = name.endswith("for good")
        return deletion.delete_version(state, subject, value, DEFAULTS, permanent=permanent)[1]
    if name.startswith("delete"):
        return deletion.delete_subject(state, subject, DEFAULTS, permanent=name.endswith("for good"))[1]
    if name == "config":
        return administration.set_config(state, subject, {"compatibility": value}, DEFAULTS)
    return administration.set_mode(state, subject, value)


@settings(max_examples=300, deadline=None)
@given(st.lists(commands, max_size=25))
def test_replaying_the_log_gives_the_state_compacted_or_not(chosen):
    log = Log()
    given_ids: dict[tuple[str, int], bytes] = {}
    for command in chosen:
        try:
            log.write(run(log.state, *command))
        except RegistryError:
            continue
        for name, context in log.state.contexts.items():
            for number, places in context.by_id.items():
                assert len({each.md5 for each in places.values()}) == 1
                # An id never changes its meaning at run time.
                md5 = next(iter(places.values())).md5
                assert given_ids.setdefault((name, number), md5) == md5
    assert seen(log.replayed()) == seen(log.state)
    assert seen(log.replayed(compacted=True)) == seen(log.state)


@settings(max_examples=200, deadline=None)
@given(st.lists(commands, max_size=20))
def test_a_reference_always_leads_somewhere(chosen):
    log = Log()
    for command in chosen:
        try:
            log.write(run(log.state, *command))
        except RegistryError:
            continue
    for versions in log.state.subjects.values():
        for version in versions.values():
            for reference in version.references if not version.deleted else ():
                context = parse_subject(version.subject).context
                subject = str(Subject(context, reference.subject))
                assert log.state.version(subject, reference.version, deleted=True) is not None


@given(
    st.sampled_from(["SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT", "CLEAR_SUBJECT"]),
    st.text(),
    st.integers(1, 99),
)
def test_keys_survive_encoding(keytype, subject, version):
    key = Key(keytype, subject, version if keytype == "SCHEMA" else 0)
    if not any(0xD800 <= ord(each) < 0xE000 for each in subject):
        assert decode_key(encode_key(key)) == key


@given(st.binary(max_size=60), st.binary(max_size=60) | st.none())
def test_whatever_is_in_the_topic_is_survived(key, value):
    state = State()
    state.apply(key, value, 0, 0)
    state.apply(b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}', value, 1, 0)
    assert seen(state)["versions"] == {}


# Hashes, computed by hand from the MD5 input of Confluent's entities


@pytest.mark.parametrize(
    ("schema", "references", "metadata", "rules", "fed"),
    [
        ('"int"', (), None, None, b'"int"'),
        ('"a"', (Reference("n", "s", 3),), None, None, b'"a"ns\x03'),
        ('"a"', (Reference("n", "s", 259),), None, None, b'"a"ns\x03'),
        ("s", (), {}, None, b"s\x01"),
        ("s", (), {"properties": {"b": "2", "a": "1"}, "sensitive": ["z", "y"]}, None, b"s\x01a1b2yz"),
        ("s", (), {"tags": {"p": ["U", "T"]}, "properties": {"a": "1"}}, None, b"s\x01pTUa1"),
        (
            "s",
            (),
            None,
            {"domainRules": [{"name": "n", "type": "CEL", "expr": "e", "disabled": True}]},
            b"s\x01nTRANSFORMWRITEREADCELe\x01",
        ),
        (
            "s",
            (),
            {},
            {"migrationRules": [{"name": "m", "type": "J", "mode": "UPGRADE", "params": {"k": "v"}}]},
            b"s\x01\x01mTRANSFORMUPGRADEJkv",
        ),
    ],
)
def test_the_md5_of_a_schema(schema, references, metadata, rules, fed):
    md5 = content_md5(schema, references, read_metadata(metadata), read_rule_set(rules))
    assert md5 == hashlib.md5(fed).digest()
    assert guid_of(md5) == str(uuid.UUID(hashlib.md5(fed).hexdigest()))


def test_newer_metadata_wins_key_by_key():
    older = {"properties": {"a": "1", "b": "1"}, "tags": {"x": ["A"]}, "sensitive": ["a"]}
    newer = {"properties": {"b": "2"}, "tags": {"x": ["B"], "y": ["C"]}, "sensitive": ["b"]}
    assert merge_metadata(older, newer) == {
        "tags": {"x": ["B"], "y": ["C"]},
        "properties": {"a": "1", "b": "2"},
        "sensitive": ["a", "b"],
    }


# Scopes


def test_the_narrowest_scope_that_says_something_counts():
    log = Log()
    defaults = Defaults("BACKWARD")
    for scope, level in ((":.__GLOBAL:", "FULL"), (None, "FORWARD"), (":.c:", "NONE")):
        log.write(administration.set_config(log.state, scope, {"compatibility": level}, defaults))
    log.write(administration.set_config(log.state, ":.c:x", {"normalize": True}, defaults))

    def level(subject: str | None) -> str:
        return effective_config(log.state, subject, defaults)["compatibilityLevel"]

    assert (level("x"), level(":.c:x"), level(":.d:x"), level(None)) == ("FORWARD", "NONE", "FULL", "FORWARD")
    assert effective_config(log.state, ":.c:x", defaults)["normalize"] is True
    log.write(administration.set_mode(log.state, ":.__GLOBAL:", "READONLY_OVERRIDE"))
    assert effective_mode(log.state, ":.c:x", defaults) == "READONLY_OVERRIDE"


def test_clear_subject_takes_away_what_is_soft_deleted():
    log = Log()
    log.write(registration.register(log.state, "a", Given('"int"'), DEFAULTS).writes)
    log.write(deletion.delete_subject(log.state, "a", DEFAULTS)[1])
    log.write([Write(Key("CLEAR_SUBJECT", "a"), {"subject": "a"})])
    assert log.state.subjects == {}
    assert json.loads(log.records[-1][0]) == {"keytype": "CLEAR_SUBJECT", "subject": "a", "magic": 0}


def test_an_id_that_two_nodes_have_given_stands_for_the_first_schema():
    state = State()
    for offset, (subject, schema) in enumerate([("a", '"int"'), ("b", '"long"'), ("c", '"int"')]):
        version = SchemaVersion(subject, 1, 5, schema)
        state.apply(encode_key(version.key), to_bytes(version.to_value()), offset, 0)
    assert {place: each.schema for place, each in state.places_of(".", 5).items()} == {
        ("a", 1): '"int"',
        ("c", 1): '"int"',
    }
    assert state.next_id(".") == 6
