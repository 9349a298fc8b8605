"""Schemas with references, and texts that are no schema."""

from __future__ import annotations

import json

from ottla.client.schema_registry import Reference, RegistrySettings, Schema, SchemaRegistry
from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of

CUSTOMER = '{"type": "record", "name": "Customer", "fields": [{"name": "id", "type": "long"}]}'
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "customer", "type": "Customer"}]}


def test_a_new_version_keeps_the_references_of_the_last_one(broker: Broker, visitor: Visitor) -> None:
    settings = RegistrySettings.from_properties({"schema.registry.url": broker.schema_registry_url})
    with SchemaRegistry(settings) as registry:
        registry.register("customers-value", Schema(CUSTOMER))
        reference = Reference("Customer", "customers-value", 1)
        registry.register("orders-value", Schema(json.dumps(ORDER), references=(reference,)))
        page = visitor.get("schemas/orders-value/versions")
        assert "customers-value version 1" in text_of(page)
        form = visitor.form(visitor.get("new-schema", subject="orders-value"), "/new-schema")
        assert form.fields["references"] == "Customer = customers-value 1"
        fields = [*ORDER["fields"], {"name": "note", "type": "string", "default": ""}]
        plan = visitor.send(form, schema=json.dumps({**ORDER, "fields": fields}))
        assert "compatible with the existing versions yes" in text_of(plan).replace("  ", " ")
        visitor.send(visitor.form(plan, "/new-schema"))
        latest = registry.latest("orders-value")
        assert (latest.version, latest.references) == (2, (reference,))


def test_a_text_that_is_no_schema_is_refused_before_the_plan(visitor: Visitor) -> None:
    for kind in ("AVRO", "PROTOBUF", "JSON"):
        refused = visitor.submit(
            "new-schema", "/new-schema", subject="fresh", type=kind, schema='{"type": "reco'
        )
        assert refused.status_code == 400
        assert "first one" not in text_of(refused)
        again = visitor.form(refused, "/new-schema")
        assert (again.fields["subject"], again.fields["type"]) == ("fresh", kind)
    refused = visitor.submit("new-schema", "/new-schema", subject="fresh", schema=CUSTOMER, references="what")
    assert "'what' is not 'name = subject version'." in text_of(refused)
