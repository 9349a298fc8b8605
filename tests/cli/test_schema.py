"""`ottla schema` and `ottla registry`"""

from __future__ import annotations

import json

import pytest

from ottla.cli.commands.servers.registry import start_beside
from ottla.cli.errors import JobError
from ottla.testing import Broker
from tests.cli.conftest import Ottla

FIRST = '{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}'
SECOND = FIRST.replace("]}", ',{"name":"note","type":"string","default":""}]}')
WRONG = FIRST.replace('"long"', '"string"')


@pytest.fixture(scope="module")
def schemas():
    with Broker(registry=True) as broker:
        ottla = Ottla(broker.bootstrap_servers)
        ottla.environment["OTTLA_SCHEMA_REGISTRY_URL"] = broker.schema_registry_url
        yield ottla


@pytest.fixture
def file(tmp_path):
    def write(text, name="order.avsc"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_register_list_show(schemas, file, unique):
    subject = unique("subject")
    said = schemas("schema", "register", subject, file(FIRST))
    assert said.text.strip().startswith(f"Version 1 of {subject} has id ")
    assert "Version 2" in schemas("schema", "register", subject, file(SECOND)).text
    [row] = [each for each in schemas("schema", "list", "--json").json if each["subject"] == subject]
    assert (row["version"], row["type"]) == (2, "AVRO")
    assert subject in schemas("schema", "list").text
    assert json.loads(schemas("schema", "show", subject, "--version", "1").text) == json.loads(FIRST)
    assert schemas("schema", "show", subject, "--json").json["version"] == 2
    by_id = schemas("schema", "show", "--id", row["id"]).text
    assert json.loads(by_id) == json.loads(SECOND)


def test_types_go_by_the_name_of_the_file(schemas, file, unique):
    subject = unique("subject")
    schemas("schema", "register", f"{subject}-json", file('{"type":"object"}', "a.json"))
    proto = file('syntax = "proto3";\nmessage A {\n  string a = 1;\n}\n', "a.proto")
    schemas("schema", "register", f"{subject}-proto", proto)
    assert schemas("schema", "show", f"{subject}-json", "--json").json["schemaType"] == "JSON"
    assert "message A {" in schemas("schema", "show", f"{subject}-proto").text
    schemas("schema", "register", f"{subject}-stdin", "-", "--type", "avro", stdin=FIRST.encode())


def test_references(schemas, file, unique):
    part, whole = unique("part"), unique("whole")
    schemas("schema", "register", part, file(FIRST))
    text = file('{"type":"array","items":"Order"}')
    refused = schemas("schema", "register", whole, text, check=False)
    assert (refused.code, "(42201)" in refused.err) == (1, True)
    schemas("schema", "register", whole, text, "--reference", f"Order={part}:1")
    assert schemas("schema", "show", whole, "--json").json["references"][0]["subject"] == part


def test_check_says_why(schemas, file, unique):
    subject = unique("subject")
    schemas("schema", "register", subject, file(FIRST))
    assert "is compatible" in schemas("schema", "check", subject, file(SECOND)).text
    refused = schemas("schema", "check", subject, file(WRONG), check=False)
    assert refused.code == 1
    assert "is not compatible with" in refused.err
    assert "TYPE_MISMATCH" in refused.err
    assert schemas("schema", "check", subject, file(SECOND), "--version", "1").code == 0


def test_diff_and_compat(schemas, file, unique):
    subject = unique("subject")
    schemas("schema", "register", subject, file(FIRST))
    changed = schemas("schema", "diff", subject, "latest", file(SECOND)).text
    assert '+      "name": "note",' in changed
    assert schemas("schema", "compat", subject).text.strip() == "BACKWARD (of all subjects)"
    schemas("schema", "compat", subject, "full")
    assert schemas("schema", "compat", subject).text.strip() == "FULL"
    assert schemas("schema", "compat").text.strip() == "BACKWARD"
    nonsense = schemas("schema", "diff", subject, "first", check=False)
    assert "'first' is neither a version nor a file." in nonsense.err


def test_delete(schemas, file, unique):
    subject = unique("subject")
    schemas("schema", "register", subject, file(FIRST))
    asked = schemas("schema", "delete", subject, check=False)
    assert "Pass --yes" in asked.err
    schemas("schema", "delete", subject, "--yes")
    assert subject not in schemas("schema", "list").text
    schemas("schema", "delete", subject, "--permanent", "--yes")
    gone = schemas("schema", "show", subject, check=False)
    assert gone.err == f"Error: Subject '{subject}' not found (40401).\n"


def test_a_registry_that_is_not_there_is_one_sentence(alone):
    refused = alone("schema", "list", "--registry-url", "http://127.0.0.1:1", check=False)
    assert refused.code == 1
    assert refused.err.startswith("Error: No schema registry answers at http://127.0.0.1:1: ")
    assert len(refused.err.splitlines()) == 1
    odd = alone("schema", "list", "--registry-url", "localhost:8081", check=False)
    assert "is not the URL of a registry" in odd.err


def test_what_keeps_a_registry_from_starting_is_one_sentence(alone, schemas, tmp_path):
    for args, sentence in (
        (
            ("--bootstrap-server", "127.0.0.1:1", "--set", "kafkastore.init.timeout.ms=500"),
            "Cannot reach a broker at 127.0.0.1:1",
        ),
        (("--set", "listeners=nowhere"), "listeners has 'nowhere'"),
        (("--listen", "256.0.0.1:1"), "Cannot listen on 256.0.0.1:1"),
        (("--config", tmp_path / "missing"), "No such file or directory"),
    ):
        refused = schemas("registry", "start", *args, check=False)
        assert refused.code in (1, 2), refused
        assert sentence in refused.err, refused.err
        assert "Traceback" not in refused.err


def test_two_cannot_listen_at_the_same_place(schemas):
    url = schemas.environment["OTTLA_SCHEMA_REGISTRY_URL"]
    refused = schemas("registry", "start", "--listen", url.removeprefix("http://"), check=False)
    assert refused.code == 1
    assert f"Cannot listen on {url.removeprefix('http://')}" in refused.err


@pytest.mark.parametrize("listen", ["0.0.0.0:8081", ":8081", "registry.example"])
def test_beside_a_secured_broker_it_is_open_to_this_machine_only(tmp_path, listen):
    with pytest.raises(JobError, match="listens on this machine only"):
        start_beside(listen, ["127.0.0.1:1"], tmp_path / "client.properties")
