"""Configs, modes, contexts, compatibility checks, data contracts."""

from __future__ import annotations

import json

import pytest

from tests.registry.conftest import Api, record


@pytest.fixture
def reset(api):
    """Reset the global settings after each test."""
    yield
    api("DELETE", "/config")
    api("PUT", "/mode?force=true", {"mode": "READWRITE"})


# Config


def test_the_level_of_all_subjects(api, reset):
    assert api.get("/config") == {"compatibilityLevel": "BACKWARD"}
    assert api("PUT", "/config", {"compatibility": "full_transitive"}).body == {
        "compatibility": "FULL_TRANSITIVE"
    }
    assert api.get("/config") == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert api("DELETE", "/config").body == {"compatibilityLevel": "FULL_TRANSITIVE"}
    assert api.get("/config") == {"compatibilityLevel": "BACKWARD"}


def test_the_level_of_a_subject(api, subject):
    missing = api("GET", f"/config/{subject}")
    assert (missing.status, missing.code) == (404, 40408)
    assert missing.message == f"Subject '{subject}' does not have subject-level compatibility configured"
    assert api.get(f"/config/{subject}?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    api("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    assert api.get(f"/config/{subject}") == {"compatibilityLevel": "NONE"}
    assert api("DELETE", f"/config/{subject}").body == {"compatibilityLevel": "NONE"}
    assert api("GET", f"/config/{subject}").code == 40408


def test_a_level_that_is_none(api, subject):
    refused = api("PUT", f"/config/{subject}", {"compatibility": "SIDEWAYS"})
    assert (refused.status, refused.code) == (422, 42203)
    assert refused.message.startswith("Invalid compatibility level. Valid values are none, backward")


def test_fields_that_are_omitted_stay_and_null_takes_one_away(api, subject):
    api("PUT", f"/config/{subject}", {"compatibility": "FULL", "normalize": True})
    api("PUT", f"/config/{subject}", {"compatibilityGroup": "major"})
    assert api.get(f"/config/{subject}") == {
        "normalize": True,
        "compatibilityLevel": "FULL",
        "compatibilityGroup": "major",
    }
    api("PUT", f"/config/{subject}", {"normalize": None})
    assert "normalize" not in api.get(f"/config/{subject}")


@pytest.mark.parametrize("path", ["", "/versions/1"])
def test_config_and_mode_stay_until_the_subject_is_deleted_permanently(api, subject, path):
    api.register(subject, '"int"')
    api("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    api("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
    api("DELETE", f"/subjects/{subject}{path}")
    assert api.get(f"/config/{subject}") == {"compatibilityLevel": "NONE"}
    assert api.get(f"/mode/{subject}") == {"mode": "READWRITE"}
    api("DELETE", f"/subjects/{subject}{path}?permanent=true")
    assert api("GET", f"/config/{subject}").code == 40408
    assert api("GET", f"/mode/{subject}").code == 40409


SCHEMAS_WITH_A_FIELD = [
    ("AVRO", lambda field: json.dumps(record("A", "a", field))),
    ("JSON", lambda field: json.dumps({"type": "object", "properties": {"a": {}, field: {}}})),
    ("PROTOBUF", lambda field: f'syntax = "proto3"; message M {{ string a = 1; oneof o {{ string {field} = 2; }} }}'),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "with_field"), SCHEMAS_WITH_A_FIELD)
def test_reserved_fields_are_not_used(api, subject, kind, with_field):
    reserved = {"properties": {"confluent:reserved": "secret, other"}}
    schema = with_field("secret")
    path = f"/compatibility/subjects/{subject}/versions?verbose=true"
    asked = {"schema": schema, "schemaType": kind, "metadata": reserved}
    assert api("POST", path, asked).body == {"is_compatible": True, "messages": []}, "not asked for"
    api("PUT", f"/config/{subject}", {"validateFields": True, "compatibility": "NONE"})
    refused = api.register(subject, schema, schemaType=kind, metadata=reserved)
    reason = "The new schema has field that conflicts with the reserved field secret."
    assert (refused.status, refused.code) == (409, 409)
    assert refused.message.endswith(f"details: [{reason}, {{validateFields: 'true', compatibility: 'NONE'}}]")
    assert api("POST", path, asked).body["messages"][0] == reason
    assert api.register(subject, with_field("b"), schemaType=kind, metadata=reserved).status == 200


def test_a_field_stays_reserved(api, subject):
    api("PUT", f"/config/{subject}", {"validateFields": True})
    api.register(subject, record("A", "a"), metadata={"properties": {"confluent:reserved": "x,y"}})
    fewer = {"properties": {"confluent:reserved": "y"}}
    refused = api.register(subject, record("A", "a", b=""), metadata=fewer)
    assert refused.code == 409
    assert (
        "reserved field x removed from its metadata which is present in the old schema's" in refused.message
    )
    more = {"properties": {"confluent:reserved": "x,y,z"}}
    assert api.register(subject, record("A", "a", b=""), metadata=more).status == 200


def test_names_beginning_with_two_dollars_are_refused(api, subject):
    schema = json.dumps({"type": "object", "properties": {"$$a": {}}})
    assert api.register(subject, schema, schemaType="JSON").status == 200
    api("PUT", f"/config/{subject}", {"validateFields": True, "compatibility": "NONE"})
    changed = json.dumps({"type": "object", "properties": {"$$a": {}, "b": {}}})
    assert api.register(subject, changed, schemaType="JSON").code == 42201


@pytest.mark.parametrize(
    ("level", "then", "is_compatible"),
    [
        ("BACKWARD", record("A", "a", b=""), True),
        ("BACKWARD", record("A", "a", "b"), False),
        ("FORWARD", record("A", "a", "b"), True),
        ("FORWARD", record("A"), False),
        ("FULL", record("A", "a", b=""), True),
        ("FULL", record("A", "a", "b"), False),
        ("NONE", '"int"', True),
    ],
)
def test_levels(api, subject, level, then, is_compatible):
    api.register(subject, record("A", "a"))
    api("PUT", f"/config/{subject}", {"compatibility": level})
    assert (api.register(subject, then).status == 200) is is_compatible


def test_transitive_levels_look_at_all_versions(api, subject):
    api("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    api.register(subject, record("A", "a"))
    api.register(subject, record("A", "b"))
    new = record("A", "b", c="")
    api("PUT", f"/config/{subject}", {"compatibility": "BACKWARD_TRANSITIVE"})
    refused = api.register(subject, new)
    assert refused.status == 409
    assert "{oldSchemaVersion: 1}" in refused.message
    api("PUT", f"/config/{subject}", {"compatibility": "BACKWARD"})
    assert api.register(subject, new).status == 200


def test_a_group_compares_only_versions_of_the_same_group(api, subject):
    api("PUT", f"/config/{subject}", {"compatibilityGroup": "major"})
    assert api.register(subject, record("A", "a"), metadata={"properties": {"major": "1"}}).status == 200
    assert api.register(subject, record("A", "b"), metadata={"properties": {"major": "2"}}).status == 200
    assert api.register(subject, record("A", "b", "c"), metadata={"properties": {"major": "2"}}).status == 409


def test_an_alias_stands_for_another_subject(api, subject):
    api.register(subject, '"int"')
    api("PUT", f"/config/alias-{subject}", {"alias": subject})
    assert api.get(f"/subjects/alias-{subject}/versions/latest")["subject"] == subject


# Checking without registering


def test_checks_say_what_registering_would(api, subject):
    api.register(subject, record("A", "a"))
    path = f"/compatibility/subjects/{subject}/versions"
    good, bad = {"schema": '{"type":"record","name":"A","fields":[]}'}, {"schema": '"int"'}
    assert api("POST", f"{path}/latest", good).body == {"is_compatible": True}
    assert api("POST", path, bad).body == {"is_compatible": False}
    verbose = api("POST", f"{path}/1?verbose=true", bad).body
    assert verbose["is_compatible"] is False
    assert "TYPE_MISMATCH" in verbose["messages"][0]
    assert api("POST", f"{path}/latest?verbose=true", good).body == {"is_compatible": True, "messages": []}
    assert api("POST", f"{path}/7", good).code == 40402
    assert api("POST", "/compatibility/subjects/nobody/versions/latest", good).body == {"is_compatible": True}
    assert api("POST", "/compatibility/subjects/nobody/versions/1", good).code == 40402
    assert api("POST", f"{path}/latest", {"schema": "{"}).code == 42201
    invalid = api("POST", f"{path}/latest?verbose=true", {"schema": "{"}).body
    assert (invalid["is_compatible"], len(invalid["messages"])) == (False, 1)
    assert api.get(f"/subjects/{subject}/versions") == [1]


# Modes


def test_a_read_only_subject(api, subject):
    api.register(subject, '"int"')
    assert api("GET", f"/mode/{subject}").code == 40409
    assert api("PUT", f"/mode/{subject}", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    refused = api.register(subject, '"long"')
    assert (refused.status, refused.code) == (422, 42205)
    assert refused.message == f"Subject {subject} is in read-only mode"
    assert api("DELETE", f"/subjects/{subject}").code == 42205
    assert api("DELETE", f"/mode/{subject}").body == {"mode": "READONLY"}
    assert api.register(subject, '"long"').status == 200
    assert api("PUT", f"/mode/{subject}", {"mode": "UPSIDE_DOWN"}).code == 42204


def test_a_read_only_registry_that_overrides(api, subject, reset):
    api("PUT", f"/mode/{subject}", {"mode": "READWRITE"})
    api("PUT", "/mode", {"mode": "READONLY_OVERRIDE"})
    assert api.register(subject, '"int"').code == 42205
    api("PUT", "/mode", {"mode": "READONLY"})
    assert api.register(subject, '"int"').status == 200


def test_imports_bring_their_ids_and_versions(api, subject):
    assert api.register(subject, '"int"', id=4711, version=3).code == 42205
    api("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
    imported = record(f"Imported{subject.split('-')[1]}", "x")
    assert api.id_of(subject, imported, id=4711, version=3) == 4711
    assert api.get(f"/subjects/{subject}/versions") == [3]
    assert api.register(subject, '"int"').code == 42205
    overwritten = api.register(subject, record("Another", "x"), id=4711, version=4)
    assert (overwritten.status, overwritten.code) == (422, 42205)
    assert overwritten.message == "Overwrite new schema with id 4711 is not permitted."
    assert api("PUT", f"/mode/{subject}", {"mode": "READWRITE"}).status == 200
    assert api.id_of(f"next-{subject}", record("Next", "x")) == 4712
    occupied = api("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
    assert (occupied.code, occupied.message) == (42205, "Cannot import since found existing subjects")
    assert api("PUT", f"/mode/{subject}?force=true", {"mode": "IMPORT"}).status == 200


def test_the_modes_of_a_whole_context_are_deleted(api, subject):
    context = f":.mode-{subject}:"
    for scope in (context, f"{context}a", f"{context}b"):
        api("PUT", f"/mode/{scope}", {"mode": "READONLY"})
    assert api("DELETE", f"/mode/{context}?recursive=true").body == {"mode": "READONLY"}
    assert {api("GET", f"/mode/{scope}").code for scope in (context, f"{context}a", f"{context}b")} == {40409}


# Contexts


def test_contexts_have_ids_of_their_own(api, subject):
    context = f".ctx-{subject}"
    qualified = f":{context}:{subject}"
    schema_id = api.id_of(qualified, record("InContext", "x"))
    assert schema_id == 1
    assert context in api.get("/contexts")
    assert api.get(f"/contexts?contextPrefix={context}") == [context]
    assert qualified in api.get("/subjects")
    assert api.get(f"/subjects?subjectPrefix=:{context}:") == [qualified]
    assert api.get(f"/contexts/{context}/subjects") == [qualified]
    assert api.get(f"/contexts/:{context}:/subjects/{subject}/versions") == [1]
    assert (
        api.get(f"/schemas/ids/1?subject=:{context}:")["schema"]
        == api.get(f"/subjects/{qualified}/versions/1")["schema"]
    )
    full = api("DELETE", f"/contexts/{context}")
    assert (full.status, full.code) == (422, 42211)
    api("DELETE", f"/subjects/{qualified}")
    api("DELETE", f"/subjects/{qualified}?permanent=true")
    assert api("DELETE", f"/contexts/{context}").status == 204
    assert context not in api.get("/contexts")


def test_a_context_has_a_config_for_its_subjects(api, subject):
    context = f":.cfg-{subject}:"
    api("PUT", f"/config/{context}", {"compatibility": "NONE"})
    assert api.get(f"/config/{context}{subject}?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    assert api.get(f"/config/{subject}?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}


# Data contracts


def test_metadata_and_rules_are_kept_and_carried_on(api, subject):
    rules = {
        "domainRules": [
            {"name": "check", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "expr": "true"}
        ]
    }
    api.register(subject, record("A", "x"), metadata={"properties": {"owner": "ann"}}, ruleSet=rules)
    version = api.get(f"/subjects/{subject}/versions/1")
    assert version["metadata"] == {"properties": {"owner": "ann"}}
    [kept] = version["ruleSet"]["domainRules"]
    assert kept == {**rules["domainRules"][0], "disabled": False}
    api.register(subject, record("A", "x", y=""))
    assert api.get(f"/subjects/{subject}/versions/2")["metadata"] == {"properties": {"owner": "ann"}}
    assert api.get(f"/subjects/{subject}/versions/2")["ruleSet"] == version["ruleSet"]


def test_defaults_and_overrides_are_merged(api, subject):
    api(
        "PUT",
        f"/config/{subject}",
        {
            "defaultMetadata": {"properties": {"owner": "nobody", "team": "data"}},
            "overrideMetadata": {"properties": {"region": "eu"}},
            "defaultRuleSet": {"domainRules": [{"name": "first", "type": "CEL"}]},
            "overrideRuleSet": {"domainRules": [{"name": "last", "type": "CEL"}]},
        },
    )
    api.register(
        subject,
        record("A", "x"),
        metadata={"properties": {"owner": "ann", "region": "us"}},
        ruleSet={"domainRules": [{"name": "own", "type": "CEL"}]},
    )
    version = api.get(f"/subjects/{subject}/versions/1")
    assert version["metadata"]["properties"] == {"owner": "ann", "region": "eu", "team": "data"}
    assert [rule["name"] for rule in version["ruleSet"]["domainRules"]] == ["first", "own", "last"]
    # A producer without these settings finds its schema again.
    assert api.register(subject, record("A", "x")).status == 200
    assert api.get(f"/subjects/{subject}/versions") == [1]


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ({"domainRules": [{"type": "CEL"}]}, "Missing rule name"),
        ({"domainRules": [{"name": "a"}]}, "Missing rule type"),
        ({"domainRules": [{"name": "1a", "type": "CEL"}]}, "Illegal initial character in rule name: 1a"),
        ({"domainRules": [{"name": "a", "type": "CEL"}] * 2}, "Found rule with duplicate name 'a'"),
        (
            {"domainRules": [{"name": "a", "type": "CEL", "mode": "UPGRADE"}]},
            "Domain rules can only be WRITE, READ, WRITEREAD",
        ),
    ],
)
def test_rules_that_are_none(api, subject, rules, reason):
    refused = api.register(subject, '"int"', ruleSet=rules)
    assert (refused.status, refused.code) == (422, 42210)
    assert reason in refused.message


def test_what_the_server_says_of_itself(api, broker):
    assert api.get("/") == {}
    assert api("POST", "/", {}).body == {}
    assert sorted(api.get("/schemas/types")) == ["AVRO", "JSON", "PROTOBUF"]
    clusters = api.get("/v1/metadata/id")["scope"]["clusters"]
    assert clusters["schema-registry-cluster"] == "schema-registry"
    assert clusters["kafka-cluster"]
    assert api.get("/v1/metadata/version")["version"]
    assert api.get("/v1/metadata/deployment") == {"attributes": ["opensource"]}


def test_openapi_describes_every_route(api: Api):
    document = api("GET", "/openapi.json", Accept="application/json").body
    assert document["openapi"].startswith("3.")
    assert {"get", "post"} == document["paths"]["/subjects/{subject}/versions"].keys()
    assert "/contexts/{context}/subjects" in document["paths"]
