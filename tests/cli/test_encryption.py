"""`ottla keys`, and `ottla produce` and `ottla consume` with encrypted values."""

import json

import pytest


@pytest.fixture
def keys(alone, tmp_path):
    file = tmp_path / "keys.json"
    made = alone("keys", "new", file)
    assert made.text == f"{file} has version 1 of the key 'default'.\n"
    return file


def secrets(file):
    return [key for versions in json.loads(file.read_text())["keys"].values() for key in versions.values()]


def test_a_key_file_is_made_rotated_and_listed_without_showing_a_key(alone, keys):
    assert alone("keys", "rotate", keys).text == f"{keys} has version 2 of the key 'default'.\n"
    alone("keys", "rotate", keys, "--name", "orders")
    listed = alone("keys", "list", keys)
    assert listed.lines == ["KEY      LATEST  VERSIONS", "default       2  1, 2", "orders        1  1"]
    assert alone("keys", "list", keys, "--json").json == {"default": [1, 2], "orders": [1]}
    assert not any(secret in listed.text for secret in secrets(keys))
    again = alone("keys", "new", keys, check=False)
    assert again.code == 1
    assert "exists already" in again.err
    assert len(secrets(keys)) == 3


def test_values_are_encrypted_on_the_way_and_come_back(ottla, topic, keys):
    sent = ottla(
        "produce", topic, "-p", 0, "-H", "h=1", "--encrypt-with", f"file:{keys}", stdin=b"one\ntwo\n"
    )
    assert sent.err.startswith("2 messages, ")
    [first, _] = [json.loads(line) for line in ottla("consume", topic, "-B", "-e", "--json").lines]
    assert [name for name, _ in first["headers"]] == ["h", "ottla.encryption"]
    assert "one" not in json.dumps(first["value"])
    read = ottla("consume", topic, "-B", "-e", "--json", "--decrypt-with", keys)
    rows = [json.loads(line) for line in read.lines]
    assert [(row["value"], row["headers"]) for row in rows] == [("one", [["h", "1"]]), ("two", [["h", "1"]])]


def test_tombstones_and_fields(ottla, topic, keys):
    ottla(
        *("produce", topic, "-p", 0, "-K", ":", "--null-marker", "NIL"),
        *("--encrypt-with", keys, "--encrypt-field", "card", "--encrypt-field", "address.street"),
        stdin=b'a:{"card": 4111, "n": 1, "address": {"street": "Main St"}}\nb:NIL\n',
    )
    [raw, tombstone] = ottla("consume", topic, "-B", "-e").lines
    assert json.loads(raw)["n"] == 1
    assert "4111" not in raw
    assert "Main" not in raw
    assert tombstone == "null"
    assert ottla("consume", topic, "-B", "-e", "--decrypt-with", keys).lines == [
        '{"card": 4111, "n": 1, "address": {"street": "Main St"}}',
        "null",
    ]
    refused = ottla(
        "produce", topic, "-m", "text", "--encrypt-with", keys, "--encrypt-field", "a", check=False
    )
    assert refused.code == 1
    assert "cannot be encrypted: it is not a JSON object." in refused.err


def test_a_plain_value_stops_and_says_where_after_what_came_before(ottla, topic, keys):
    ottla("produce", topic, "-p", 0, "-m", "one", "--encrypt-with", keys)
    ottla("produce", topic, "-p", 0, "-m", "plain")
    stopped = ottla("consume", topic, "-B", "-e", "--decrypt-with", keys, check=False)
    assert stopped.code == 1
    assert stopped.lines == ["one"]
    assert f"{topic}-0@1 cannot be decrypted. The value is not encrypted" in stopped.err
    allowed = ottla("consume", topic, "-B", "-e", "--decrypt-with", keys, "--allow-plain")
    assert allowed.lines == ["one", "plain"]


def test_a_copy_in_another_topic_is_read_only_if_that_is_said(ottla, topic, keys, unique):
    copy = unique("copy")
    ottla("topics", "create", copy)
    ottla("produce", topic, "-p", 0, "-m", "one", "--encrypt-with", keys)
    ottla("produce", copy, "--json-lines", stdin=ottla("consume", topic, "-B", "-e", "--json").out)
    moved = ottla("consume", copy, "-B", "-e", "--decrypt-with", keys, check=False)
    assert moved.code == 1
    assert "encrypted for another topic" in moved.err
    assert ottla("consume", copy, "-B", "-e", "--decrypt-with", keys, "--decrypt-as", topic).lines == ["one"]
    ottla("topics", "delete", copy, "--yes")


def test_what_is_wrong_with_keys_is_one_sentence(ottla, topic, keys, tmp_path):
    ottla("produce", topic, "-p", 0, "-m", "one", "--encrypt-with", keys)
    other = tmp_path / "other.json"
    ottla("keys", "new", other)
    for reference, sentence in (
        (other, "not wrapped by the key 'default'"),
        (tmp_path / "none.json", "No such file or directory"),
        ("gcp:x", "Keys are in file:/path/to/keys.json or in vault:"),
        ("vault:http://127.0.0.1:1#orders", "not one of those to be used"),
    ):
        failed = ottla("consume", topic, "-B", "-e", "--decrypt-with", reference, check=False)
        assert (failed.code, failed.out) == (1, b"")
        assert sentence in failed.err
        assert not any(secret in failed.err for secret in secrets(keys) + secrets(other))
    keys.chmod(0o644)
    failed = ottla("produce", topic, "-m", "x", "--encrypt-with", keys, check=False)
    assert failed.code == 1
    assert "chmod 600" in failed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("produce", "t", "-m", "x", "--encrypt-field", "a"),
        ("consume", "t", "--allow-plain"),
        ("consume", "t", "--decrypt-as", "u"),
    ],
)
def test_options_that_need_keys_say_so(alone, arguments):
    refused = alone(*arguments, check=False)
    assert refused.code == 2
    assert "with the location of the keys" in refused.err
