"""The Python code in the section "Data at rest" runs as printed; tests/spark/test_encryption.py has the Spark code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from ottla.encryption import make_key_file
from ottla.testing import Broker

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "secure-a-cluster.md").read_text()
SECTION = PAGE.partition("\n## Data at rest\n")[2].partition("\n## ")[0]
BLOCKS = [
    code for code in re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL) if "ottla.spark" not in code
]


def test_each_client_has_an_example() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: re.findall(r"from (\w+)", code)[0])
def test_code_runs_as_it_is_printed(
    fresh_ottla_broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    pytest.importorskip(re.findall(r"from (\w+)", code)[0])
    monkeypatch.chdir(tmp_path)
    make_key_file(tmp_path / "keys.json")
    fresh_ottla_broker.create_topic("payments")
    names: dict[str, Any] = {}
    exec(code.replace("localhost:9092", fresh_ottla_broker.bootstrap_servers), names)
    assert names["value"] == b"card 4111"
    [record] = fresh_ottla_broker.records("payments")
    assert b"4111" not in (record.value or b"")
