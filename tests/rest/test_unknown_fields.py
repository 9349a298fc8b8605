"""Property: a field that the proxy does not know is never dropped silently."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.testing import Broker

V2 = {"Content-Type": "application/vnd.kafka.json.v2+json"}
KNOWN = {
    "records", "key_schema", "key_schema_id", "value_schema", "value_schema_id", "key", "value", "partition", "id",
    "partition_id", "headers", "timestamp", "type", "subject", "subject_name_strategy", "schema_id",
    "schema_version", "schema", "data", "name",
}  # fmt: skip
#: Typos of known names, and other names.
NAMES = st.one_of(
    st.sampled_from(sorted(KNOWN)).flatmap(
        lambda name: st.sampled_from([name[:-1], name + "s", name.upper(), name[1:], name + " "])
    ),
    st.text(min_size=1, max_size=8),
).filter(lambda name: name not in KNOWN)
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def empty(broker: Broker) -> Iterator[str]:
    broker.create_topic("stays-empty")
    yield "stays-empty"
    assert broker.records("stays-empty") == []


@FEW
@given(name=NAMES, place=st.sampled_from(["body", "record"]))
def test_v2(http: httpx.Client, empty: str, name: str, place: str) -> None:
    record: dict[str, Any] = {"value": 1}
    body: dict[str, Any] = {"records": [record]}
    (body if place == "body" else record)[name] = 1
    answer = http.post(f"/topics/{empty}", content=json.dumps(body), headers=V2)
    assert (answer.status_code, answer.json()["message"]) == (422, f"Unrecognized field: {name}")


@FEW
@given(name=NAMES, place=st.sampled_from(["record", "value", "header"]))
def test_v3(http: httpx.Client, empty: str, name: str, place: str) -> None:
    [cluster] = http.get("/v3/clusters").json()["data"]
    value: dict[str, Any] = {"type": "STRING", "data": "a"}
    header: dict[str, Any] = {"name": "h"}
    record: dict[str, Any] = {"value": value, "headers": [header]}
    {"record": record, "value": value, "header": header}[place][name] = 1
    path = f"{cluster['metadata']['self']}/topics/{empty}/records"
    answer = http.post(path, json=record).json()
    assert answer["error_code"] in (400, 422)
    assert "Unrecognized field" in answer["message"]
