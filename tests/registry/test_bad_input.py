"""Bad input gets Confluent's error codes, causes no hang, and stores nothing partially."""

from __future__ import annotations

import json

import pytest

from tests.registry.conftest import Api

DEEP = 100_000


@pytest.fixture(autouse=True)
def _still_works(api, subject):
    before = api.get("/subjects?deleted=true")
    yield
    assert api.get("/subjects?deleted=true") == before
    assert api.register(f"after-{subject}", '"int"').status == 200
    api("DELETE", f"/subjects/after-{subject}")
    api("DELETE", f"/subjects/after-{subject}?permanent=true")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, 422),
        (b"{", 400, 400),
        (b"\xff\xfe\x00", 400, 400),
        (b"[]", 400, 400),
        (b'"text"', 400, 400),
        (b"null", 400, 400),
        (b'{"schema": 7}', 400, 400),
        (b'{"schema": {"type": "string"}}', 400, 400),
        (b'{"schema": "\\"int\\"", "references": {}}', 400, 400),
        (b'{"schema": "\\"int\\"", "references": [7]}', 400, 400),
        (b'{"schema": "\\"int\\"", "references": [{"name": "a"}]}', 422, 42201),
        (b'{"schema": "\\"int\\"", "metadata": []}', 400, 400),
        (b'{"schema": "\\"int\\"", "metadata": {"properties": {"a": {}}}}', 400, 400),
        (b'{"schema": "\\"int\\"", "ruleSet": {"domainRules": 7}}', 400, 400),
        (b'{"schema": "\\"int\\"", "id": "one"}', 400, 400),
        (b'{"schema": "\\"int\\"", "schemaType": "XML"}', 422, 42201),
        (b"{}", 422, 42201),
        (b'{"schema": ""}', 422, 42201),
        (b'{"schema": "{"}', 422, 42201),
        (b'{"schema": "{", "schemaType": "JSON"}', 422, 42201),
        (b'{"schema": "message {", "schemaType": "PROTOBUF"}', 422, 42201),
        (b'{"schema": "\\"no.such.Type\\""}', 422, 42201),
    ],
)
def test_malformed_bodies(api, subject, body, status, code):
    for path in (f"/subjects/{subject}/versions", f"/compatibility/subjects/{subject}/versions"):
        answer = api("POST", path, body)
        assert (answer.status, answer.code) == (status, code), answer
        assert answer.message


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_deep_nesting(api, subject, kind):
    nested = {
        "AVRO": '{"type":"array","items":' * DEEP + '"int"' + "}" * DEEP,
        "JSON": '{"items":' * DEEP + "{}" + "}" * DEEP,
        "PROTOBUF": "message A {" * DEEP + "}" * DEEP,
    }[kind]
    answer = api("POST", f"/subjects/{subject}/versions", {"schema": nested, "schemaType": kind})
    assert (answer.status, answer.code) == (422, 42201), (answer.status, str(answer.body)[:300])


def test_deep_nesting_of_the_body_itself(api, subject):
    answer = api("POST", f"/subjects/{subject}/versions", b'{"metadata":' * DEEP + b"{}" + b"}" * DEEP)
    assert (answer.status, answer.code) == (400, 400)


def test_a_schema_that_is_larger_than_the_broker_takes(api, subject):
    fields = [{"name": f"field_{n}", "type": "string", "doc": "x" * 200} for n in range(8_000)]
    schema = json.dumps({"type": "record", "name": "Large", "fields": fields})
    answer = api("POST", f"/subjects/{subject}/versions", {"schema": schema})
    assert (answer.status, answer.code) == (422, 42209)
    assert answer.message == "Write failed because schema is too large"


def test_ten_megabytes_of_nothing(api, subject):
    answer = api("POST", f"/subjects/{subject}/versions", {"schema": "x" * (10 << 20)})
    assert (answer.status, answer.code) == (422, 42201)
    assert len(answer.message) < 2_000


def test_more_than_the_server_reads(api, subject):
    answer = api("POST", f"/subjects/{subject}/versions", b" " * (17 << 20))
    assert (answer.status, answer.code) == (413, 413)


@pytest.mark.parametrize("name", ["%20%00", "a%0Ab", "__GLOBAL", "__EMPTY", "x" * 256, ":.ctx:"])
def test_names_that_no_subject_has(api, name):
    answer = api("POST", f"/subjects/{name}/versions", {"schema": '"int"'})
    assert (answer.status, answer.code) == (422, 42208)


def test_content_types(api, broker, subject):
    path = f"/subjects/{subject}"
    for kind in ("text/plain", "application/xml"):
        refused = api("POST", path, b'{"schema": "\\"int\\""}', Content_type=kind)
        assert (refused.status, refused.code) == (415, 415)
    for kind in ("application/json", "application/octet-stream", "application/vnd.schemaregistry+json"):
        assert (
            Api(broker.schema_registry_url)("POST", path, b'{"schema": "\\"int\\""}', Content_type=kind).code
            == 40401
        )
    assert api("GET", "/subjects", Accept="text/html").status == 406
    answer = api("GET", "/subjects", Accept="application/json")
    assert answer.headers["Content-Type"] == "application/json"


def test_paths_and_methods(api):
    assert (api("GET", "/nowhere").status, api("GET", "/nowhere").code) == (404, 404)
    assert (api("PUT", "/subjects", {}).status, api("PUT", "/subjects", {}).code) == (405, 405)
    assert api("GET", "/schemas/ids/one").status == 404
    assert api("GET", "/subjects?offset=one").status == 404
    assert api("GET", "/subjects/%ff/versions").status == 400


def test_references_in_a_circle_are_refused(api, subject):
    """A schema can refer only to existing ones, so a cycle needs a version that an import replaces."""
    api("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
    circle = {
        "schema": '{"type":"record","name":"A","fields":[{"name":"b","type":"A2"}]}',
        "references": [{"name": "A2", "subject": subject, "version": 1}],
        "id": 90_000,
        "version": 1,
    }
    answer = api("POST", f"/subjects/{subject}/versions", circle)
    assert (answer.status, answer.code) == (422, 42201)
    api("DELETE", f"/mode/{subject}")
