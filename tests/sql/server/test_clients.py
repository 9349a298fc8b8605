"""ksqlDB clients from PyPI, each in its own environment because they pin old packages."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import venv
from pathlib import Path

import pytest

from ottla.testing import Broker
from tests.sql.server.serving import Served

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]


def installed(place: Path, *packages: str, options: tuple[str, ...] = ()) -> Path:
    """Return the interpreter of an environment with the packages, or skip the test if they are unavailable."""
    venv.create(place, with_pip=True)
    python = place / "bin" / "python"
    for each in packages:
        done = subprocess.run(
            [python, "-m", "pip", "install", "-q", *options, each],
            capture_output=True,
            text=True,
            timeout=300,
        )
        if done.returncode:
            pytest.skip(f"{each} cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    return python


def run(python: Path, script: str, url: str) -> str:
    done = subprocess.run(
        [python, "-c", textwrap.dedent(script), url], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ksqldb(served: Served, broker: Broker, tmp_path: Path) -> None:
    python = installed(tmp_path / "ksqldb", "ksqldb")
    printed = run(
        python,
        """
        import asyncio, sys
        from ksqldb import KSQLdbClient

        client = KSQLdbClient(sys.argv[1])
        assert client.get_properties()
        created = client.ksql("CREATE STREAM p (k INT KEY, x STRING) WITH (kafka_topic='p', partitions=1);")
        assert created[0]["commandStatus"]["status"] == "SUCCESS"
        acks = client.inserts_stream("p", [{"K": 1, "X": "a"}, {"K": 2, "X": "b"}])
        assert acks == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
        header, *rows = client.query_sync("PRINT p FROM BEGINNING LIMIT 2;")
        assert [row[3] for row in rows] == ["1", "2"]

        async def follow():
            async for each in client.query_async("PRINT p FROM BEGINNING;", timeout=None):
                if isinstance(each, dict):
                    query_id = each["queryId"]
                elif each[2] == 1:
                    assert client.close_query(query_id)

        asyncio.run(follow())
        print("done")
        """,
        served.url,
    )
    assert printed == "done\n"
    assert len(broker.records("p", 0)) == 2


def test_ksql(served: Served, tmp_path: Path) -> None:
    """The client needs a Python before 3.10, so the test restores the removed names of `collections`."""
    python = installed(tmp_path / "ksql", "wheel", "setuptools<70")
    done = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-build-isolation", "ksql"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        pytest.skip(f"ksql cannot be installed: {done.stderr.strip().splitlines()[-1]}")
    printed = run(
        python,
        """
        import collections, collections.abc, sys

        for name in collections.abc.__all__:
            setattr(collections, name, getattr(collections.abc, name))
        from ksql import KSQLAPI

        client = KSQLAPI(sys.argv[1])
        assert client.ksql("show streams")[0]["@type"] == "streams"
        client.create_stream(table_name="o", columns_type=["k int key", "x varchar"], topic="s", value_format="JSON")
        fields = client.ksql("describe o")[0]["sourceDescription"]["fields"]
        assert [each["name"] for each in fields] == ["K", "X"]
        # Not client.query: that ends in a StopIteration of its own.
        lines = "".join(client.sa.query("PRINT s FROM BEGINNING LIMIT 1"))
        assert "partition: 0" in lines, lines
        print("done")
        """,
        served.url,
    )
    assert printed == "done\n"
    assert sys.version_info >= (3, 11)
