"""Subjects and versions: registering, looking up, deleting."""

from __future__ import annotations

import json

from tests.registry.conftest import V1, record


def test_a_schema_gets_an_id_and_a_version(api, subject):
    registered = api.register(subject, record("A", "x"))
    assert registered.status == 200
    assert list(registered.body) == ["id"]
    assert registered.headers["Content-Type"] == V1
    assert api.get(f"/subjects/{subject}/versions") == [1]
    version = api.get(f"/subjects/{subject}/versions/1")
    assert list(version) == ["subject", "version", "id", "schemaType", "schema"]
    assert version["schemaType"] == "AVRO"
    assert version["id"] == registered.body["id"]
    assert version["schema"] == '{"type":"record","name":"A","fields":[{"name":"x","type":"string"}]}'


def test_clients_that_cope_get_the_newer_fields_too(api, subject):
    api.register(subject, record("A", "x"))
    version = api.get(f"/subjects/{subject}/versions/latest", Confluent_Accept_Unknown_Properties="true")
    assert {"guid", "schemaType", "ts", "deleted"} < version.keys()
    assert version["deleted"] is False


def test_the_same_schema_keeps_its_id_across_subjects(api, subject):
    first = api.id_of(subject, record("Shared", "x"))
    assert api.id_of(f"other-{subject}", record("Shared", "x")) == first
    assert api.id_of(subject, record("Shared", "x", y="")) != first
    assert api.get(f"/schemas/ids/{first}/versions") == [
        {"subject": f"other-{subject}", "version": 1},
        {"subject": subject, "version": 1},
    ]
    assert api.get(f"/schemas/ids/{first}/subjects") == [f"other-{subject}", subject]


def test_registering_again_gives_the_id_that_there_is(api, subject):
    first = api.id_of(subject, record("A", "x"))
    api.id_of(subject, record("A", "x", y=""))
    assert api.id_of(subject, record("A", "x")) == first
    assert api.get(f"/subjects/{subject}/versions") == [1, 2]


def test_an_incompatible_schema_is_refused_with_the_reasons(api, subject):
    api.register(subject, record("A", "x"))
    refused = api.register(subject, record("A", "x", "y"))
    assert (refused.status, refused.code) == (409, 409)
    assert refused.message.startswith(
        f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: ['
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE'"
    )
    assert "{oldSchemaVersion: 1}" in refused.message
    assert refused.message.endswith("{validateFields: 'false', compatibility: 'BACKWARD'}]")
    assert api.get(f"/subjects/{subject}/versions") == [1]


def test_looking_up(api, subject):
    schema_id = api.id_of(subject, record("A", "x"))
    found = api(
        "POST",
        f"/subjects/{subject}",
        {"schema": '{"name":"A","type":"record","fields":[{"name":"x","type":"string"}]}'},
    )
    assert (found.status, found.body["id"], found.body["version"]) == (200, schema_id, 1)
    missing = api("POST", f"/subjects/{subject}", {"schema": '"int"'})
    assert (missing.status, missing.code, missing.message) == (404, 40403, "Schema not found")
    nobody = api("POST", "/subjects/nobody", {"schema": '"int"'})
    assert (nobody.status, nobody.code, nobody.message) == (404, 40401, "Subject 'nobody' not found.")


def test_what_is_not_there(api, subject):
    api.register(subject, '"int"')
    for path, code, message in (
        ("/subjects/nobody/versions", 40401, "Subject 'nobody' not found."),
        ("/subjects/nobody/versions/1", 40401, "Subject 'nobody' not found."),
        (f"/subjects/{subject}/versions/9", 40402, "Version 9 not found."),
        ("/schemas/ids/99999", 40403, "Schema 99999 not found"),
        ("/schemas/ids/99999/versions", 40403, "Schema 99999 not found"),
    ):
        answer = api("GET", path)
        assert (answer.status, answer.code, answer.message) == (404, code, message), path
    for version in ("0", "earliest", "-2", "99999999999"):
        answer = api("GET", f"/subjects/{subject}/versions/{version}")
        assert (answer.status, answer.code) == (422, 42202)
        assert answer.message.startswith(f"The specified version '{version}' is not a valid version id.")


def test_soft_deletion_and_what_it_hides(api, subject):
    schema_id = api.id_of(subject, record("Deleted", "x"))
    api.register(subject, record("Deleted", "x", y=""))
    assert api("DELETE", f"/subjects/{subject}/versions/1").body == 1
    assert api.get(f"/subjects/{subject}/versions") == [2]
    assert api.get(f"/subjects/{subject}/versions?deleted=true") == [1, 2]
    assert api.get(f"/subjects/{subject}/versions?deletedOnly=true") == [1]
    assert api("GET", f"/subjects/{subject}/versions/1").code == 40402
    assert api.get(f"/subjects/{subject}/versions/1?deleted=true")["id"] == schema_id
    # Data written with it must stay readable.
    assert api("GET", f"/schemas/ids/{schema_id}").status == 200
    assert api.get(f"/schemas/ids/{schema_id}/versions") == []
    assert api.get(f"/schemas/ids/{schema_id}/versions?deleted=true") == [{"subject": subject, "version": 1}]
    again = api("DELETE", f"/subjects/{subject}/versions/1")
    assert (again.status, again.code) == (404, 40406)


def test_deleting_for_good_comes_second(api, subject):
    schema_id = api.id_of(subject, record("Gone", "x"))
    early = api("DELETE", f"/subjects/{subject}/versions/1?permanent=true")
    assert (early.status, early.code) == (404, 40407)
    early = api("DELETE", f"/subjects/{subject}?permanent=true")
    assert (early.status, early.code) == (404, 40405)
    assert api("DELETE", f"/subjects/{subject}").body == [1]
    assert api("DELETE", f"/subjects/{subject}").code == 40404
    assert subject not in api.get("/subjects")
    assert subject in api.get("/subjects?deleted=true")
    assert api.get("/subjects?deletedOnly=true").count(subject) == 1
    assert api("DELETE", f"/subjects/{subject}?permanent=true").body == [1]
    assert subject not in api.get("/subjects?deleted=true")
    assert api("GET", f"/schemas/ids/{schema_id}").code == 40403
    assert api("DELETE", f"/subjects/{subject}").code == 40401


def test_a_schema_that_was_deleted_comes_back_with_its_id(api, subject):
    schema_id = api.id_of(subject, record("Back", "x"))
    api("DELETE", f"/subjects/{subject}")
    assert api.id_of(subject, record("Back", "x")) == schema_id
    # Version numbers are not reused, and the older version is permanently deleted.
    assert api.get(f"/subjects/{subject}/versions?deleted=true") == [2]


def test_references_are_resolved_listed_and_protected(api, subject):
    part, whole = f"part-{subject}", f"whole-{subject}"
    api.register(part, {"type": "record", "name": "Part", "namespace": "ns", "fields": []})
    schema_id = api.id_of(
        whole,
        {"type": "record", "name": "Whole", "fields": [{"name": "p", "type": "ns.Part"}]},
        references=[{"name": "ns.Part", "subject": part, "version": 1}],
    )
    assert api.get(f"/subjects/{part}/versions/1/referencedby") == [schema_id]
    version = api.get(f"/subjects/{whole}/versions/1")
    assert version["references"] == [{"name": "ns.Part", "subject": part, "version": 1}]
    for path in (f"/subjects/{part}", f"/subjects/{part}/versions/1"):
        refused = api("DELETE", path)
        assert (refused.status, refused.code) == (422, 42206)
        assert f"subject={part},version=1" in refused.message
    api("DELETE", f"/subjects/{whole}")
    assert api("DELETE", f"/subjects/{part}").status == 200


def test_a_reference_that_does_not_resolve(api, subject):
    refused = api.register(
        subject, '"ns.Nowhere"', references=[{"name": "ns.Nowhere", "subject": "nowhere", "version": 3}]
    )
    assert (refused.status, refused.code) == (422, 42201)
    assert 'No schema reference found for subject "nowhere" and version 3' in refused.message


def test_normalizing(api, subject):
    first = api.id_of(subject, '{"type":"enum","name":"E","namespace":"n","symbols":["A"]}')
    other = '{"name":"n.E","type":"enum","symbols":["A"],"doc":""}'.replace(',"doc":""', "")
    normalized = api("POST", f"/subjects/{subject}/versions?normalize=true", {"schema": other})
    assert normalized.status == 200
    assert (
        api("POST", f"/subjects/{subject}?normalize=true", {"schema": other}).body["id"]
        == normalized.body["id"]
    )
    assert first > 0


def test_metadata_finds_a_version(api, subject):
    api.register(subject, record("A", "x"), metadata={"properties": {"owner": "ann", "level": "1"}})
    api.register(subject, record("A", "x", y=""), metadata={"properties": {"owner": "bob"}})
    assert api.get(f"/subjects/{subject}/metadata?key=owner&value=ann")["version"] == 1
    assert api.get(f"/subjects/{subject}/metadata?key=owner&value=ann&key=level&value=1")["version"] == 1
    assert api.get(f"/subjects/{subject}/metadata?key=owner&value=bob")["version"] == 2
    assert api("GET", f"/subjects/{subject}/metadata?key=owner&value=eve").code == 40403


def test_only_the_schema(api, subject):
    schema_id = api.id_of(subject, record("A", "x"))
    assert api.get(f"/subjects/{subject}/versions/1/schema") == record("A", "x")
    assert api.get(f"/schemas/ids/{schema_id}/schema") == record("A", "x")


def test_lists_come_in_pages(api, subject):
    for number in range(4):
        api.register(f"page-{subject}-{number}", '"int"')
    prefix = f"/subjects?subjectPrefix=page-{subject}"
    assert api.get(f"{prefix}&offset=1&limit=2") == [f"page-{subject}-1", f"page-{subject}-2"]
    assert len(api.get(f"{prefix}&limit=-1")) == 4
    listed = api.get(f"/schemas?subjectPrefix=page-{subject}&latestOnly=true&limit=2")
    assert [each["subject"] for each in listed] == [f"page-{subject}-0", f"page-{subject}-1"]


def test_a_guid_is_the_same_everywhere(api, subject):
    schema_id = api.id_of(subject, record("Guid", "x"))
    version = api.get(f"/subjects/{subject}/versions/1", Confluent_Accept_Unknown_Properties="true")
    guid = version["guid"]
    assert api.get(f"/schemas/guids/{guid}")["schema"] == version["schema"]
    assert api.get(f"/schemas/guids/{guid}/ids") == [{"context": ".", "id": schema_id}]
    assert api("GET", "/schemas/guids/no-guid").code == 40403


def tag(path: str, *tags: str, kind: str = "sr_field") -> dict:
    return {"schemaEntity": {"entityPath": path, "entityType": kind}, "tags": list(tags)}


def test_tags_make_a_new_version(api, subject):
    api.register(subject, {**record("A", "x"), "namespace": "shop"})
    path = f"/subjects/{subject}/versions/latest"
    tags = [tag("shop.A.x", "PII", "PRIVATE"), tag("shop.A", "ORDER", kind="sr_record")]
    assert api("POST", f"{path}/tags", {"newVersion": 2, "tagsToAdd": tags}).status == 200
    tagged = api.get(path)
    assert tagged["version"] == 2
    assert json.loads(tagged["schema"])["fields"][0]["confluent:tags"] == ["PII", "PRIVATE"]
    assert json.loads(tagged["schema"])["confluent:tags"] == ["ORDER"]
    found = api.get(f"{path}?findTags=PII")["schemaTags"]
    assert found == [tag("shop.A.x", "PII", "PRIVATE")]
    assert len(api.get(f"/schemas/ids/{tagged['id']}?findTags=*")["schemaTags"]) == 2
    assert api("POST", f"{path}/tags", {"tagsToRemove": [tag("shop.A.x", "PII")]}).status == 200
    assert json.loads(api.get(path)["schema"])["fields"][0]["confluent:tags"] == ["PRIVATE"]
    nowhere = api("POST", f"{path}/tags", {"tagsToAdd": [tag("shop.A.z", "PII")]})
    assert (nowhere.code, nowhere.message) == (42201, "No matching path 'shop.A.z' found in the schema")
    late = api("POST", f"{path}/tags", {"newVersion": 9, "tagsToAdd": [tag("shop.A.x", "T")]})
    assert (late.code, late.message) == (42201, "Version is not one more than previous version")
    assert api("POST", f"{path}/tags", {"tagsToAdd": [{"tags": ["T"]}]}).code == 400


def test_tags_of_a_json_schema_and_with_a_registration(api, subject):
    line = {"type": "object", "properties": {"price": {"type": "number"}}}
    schema = {
        "type": "object",
        "properties": {"lines": {"type": "array", "items": line}, "id": {"oneOf": [line]}},
    }
    tags = [tag("object.lines.array.object.price", "MONEY"), tag("object.id.oneof.0.object.price", "MONEY")]
    api.id_of(subject, schema, schemaType="JSON", schemaTagsToAdd=tags)
    version = api.get(f"/subjects/{subject}/versions/1?findTags=MONEY")
    assert sorted(map(str, version["schemaTags"])) == sorted(map(str, tags))


def test_references_that_branch_and_join_are_resolved_once_each(api, subject):
    """Thirty levels of two references each: a billion paths to the bottom."""
    names = [f"{subject}-level-{level}" for level in range(30)]
    api.id_of(names[0], {"type": "record", "name": "L0", "fields": []})
    for level in range(1, 30):
        below = {"subject": names[level - 1], "version": 1}
        fields = [{"name": name, "type": f"L{level - 1}"} for name in ("a", "b")]
        references = [{"name": f"L{level - 1}", **below}, {"name": "again", **below}]
        api.id_of(
            names[level], {"type": "record", "name": f"L{level}", "fields": fields}, references=references
        )
    assert api.get(f"/subjects/{names[29]}/versions/1")["version"] == 1


def test_references_can_be_named_with_their_context(api, subject):
    part, whole = f"part-{subject}", f":.ref-{subject}:whole"
    api.register(f":.ref-{subject}:{part}", {"type": "record", "name": "Part", "fields": []})
    schema_id = api.id_of(whole, '"Part"', references=[{"name": "Part", "subject": part, "version": 1}])
    found = api.get(f"/subjects/{whole}/versions/1?referenceFormat=qualified")
    assert found["references"][0]["subject"] == f":.ref-{subject}:{part}"
    found = api.get(f"/schemas/ids/{schema_id}?subject={whole}&referenceFormat=qualified")
    assert found["references"][0]["subject"] == f":.ref-{subject}:{part}"


def test_a_limit_of_zero_is_none(api, subject):
    api.register(subject, '"int"')
    api("PUT", f"/config/{subject}", {"compatibility": "NONE"})
    api.register(subject, '"string"')
    assert api.get(f"/subjects/{subject}/versions?limit=0") == [1, 2]
    assert api.get(f"/subjects/{subject}/versions?limit=1") == [1]
    assert subject in api.get("/subjects?limit=0")


def test_codes_of_missing_subjects_and_versions(api, subject):
    api.register(subject, '"int"')
    assert api.get(f"/subjects/{subject}/versions?deletedOnly=true") == [], "the subject exists"
    assert api("GET", "/subjects/nobody/versions?deletedOnly=true").code == 40401
    for path in ("", "/schema", "/referencedby"):
        assert api("GET", f"/subjects/nobody/versions/1{path}").code == 40401
        missing = api("GET", f"/subjects/{subject}/versions/7{path}")
        assert (missing.code, missing.message) == (40402, "Version 7 not found.")
    api("DELETE", f"/subjects/{subject}")
    assert api.get(f"/subjects/{subject}/versions/1/referencedby") == []


def test_numbers_in_quotes(api, subject):
    api("PUT", f"/mode/{subject}", {"mode": "IMPORT"})
    unique = record(f"Quoted{subject.split('-')[1]}", "x")
    assert api.register(subject, unique, id="4712", version="2").body["id"] == 4712
    assert api.get(f"/subjects/{subject}/versions") == [2]
    wrong = api.register(subject, unique, id="many")
    assert (wrong.status, wrong.message) == (400, 'id must be an integer, not "many".')
