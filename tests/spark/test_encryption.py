"""Promise: a pipeline over encrypted topics needs one option at each end, and reveals its keys nowhere."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from ottla.encryption import Decryptor, KeyFile, make_key_file
from ottla.spark import json as json_value
from ottla.spark import read_topic, to_topic
from ottla.testing import Broker
from tests.spark.consuming import consume

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_key_file(tmp_path / "keys.json")
    return tmp_path / "keys.json"


def test_a_stream_is_encrypted_exactly_once_and_shows_no_key(
    session: SparkSession, ottla_broker: Broker, keys: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for topic in ("enc-in", "enc-out"):
        ottla_broker.create_topic(topic, partitions=2)
    orders = session.createDataFrame([(f"u{n}", f"card {n}") for n in range(50)], "user STRING, card STRING")
    to_topic(orders, "enc-in", key="user", encrypt_with=str(keys))
    stream = read_topic(session, "enc-in", value=json_value("card STRING"), decrypt_with=f"file:{keys}")
    upper = stream.selectExpr("key", "upper(value.card) AS card")
    for _ in range(2):  # the second run continues from the checkpoint, and writes nothing again
        query = to_topic(
            upper,
            "enc-out",
            key="key",
            encrypt_with=f"file:{keys}",
            encrypt_fields=["card"],
            checkpoint=str(tmp_path / "c"),
        )
        assert query is not None
        query.awaitTermination()
    assert query.exception() is None
    decryptor = Decryptor(KeyFile(keys))
    found = []
    for message in consume(ottla_broker.bootstrap_servers, "enc-out", 2):
        assert b"CARD" not in message.value()
        plain = decryptor.decrypt("enc-out", message.value(), message.headers()).value
        found.append(json.loads(plain or b"")["card"])
    assert sorted(found) == sorted(f"CARD {n}" for n in range(50))
    batch = read_topic(
        session, "enc-out", value=json_value("card STRING"), stream=False, decrypt_with=f"file:{keys}"
    )
    batch.explain(True)
    assert batch.where("value.card LIKE 'CARD%'").count() == 50
    [key] = json.loads(keys.read_text())["keys"]["default"].values()
    files = b"".join(file.read_bytes() for file in (tmp_path / "c").rglob("*") if file.is_file())
    shown = "".join(capfd.readouterr()) + str(query.lastProgress) + str(batch._jdf.queryExecution())
    for secret in (key, base64.b64decode(key).hex()):
        assert secret not in shown
        assert secret.encode() not in files


SECTION = (
    (Path(__file__).parents[2] / "docs" / "how-to" / "secure-a-cluster.md")
    .read_text()
    .partition("\n## Data at rest\n")[2]
)
BLOCKS = re.findall(r"```python\n(.*?)```", SECTION.partition("\n## ")[0], re.DOTALL)


def test_the_example_of_the_page_runs(
    session: SparkSession, ottla_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [code] = [block for block in BLOCKS if "ottla.spark" in block]
    monkeypatch.chdir(tmp_path)
    make_key_file(tmp_path / "keys.json")
    for topic in ("payments", "large-payments"):
        ottla_broker.create_topic(topic)
    names: dict[str, Any] = {}
    # The JVM has another working directory, where files would outlast the test.
    code = code.replace("/etc/secrets", str(tmp_path)).replace(
        '"checkpoints"', repr(str(tmp_path / "progress"))
    )
    exec(code, names)
    for query in session.streams.active:
        query.awaitTermination()
    [message] = consume(ottla_broker.bootstrap_servers, "large-payments", 1)
    assert b"4111" not in message.value()
    assert json.loads(message.value())["amount"] == 1200
