"""The commands in docs/how-to/run-sql.md run as printed, on another port."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sql.server.serving import Served

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "run-sql.md"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_commands_of_the_page_run_as_printed(served: Served) -> None:
    section = PAGE.read_text().partition("\n## The server\n")[2].partition("\n## ")[0]
    [block] = re.findall(r"^```bash\n(.*?)^```", section, re.DOTALL | re.MULTILINE)
    served.done(
        "CREATE STREAM tweets (id BIGINT KEY, username STRING, text STRING, likes INT, tags ARRAY<STRING>)"
        " WITH (kafka_topic='tweets', value_format='JSON', partitions=1);"
        "INSERT INTO tweets VALUES (1, 'ann', 'Hello', 12, ARRAY['hello']);"
    )
    tools = Path(sys.executable).parent
    script = block.replace("http://localhost:8088", served.url).replace("\nottla ", f"\n{tools}/ottla ")
    done = subprocess.run(["bash", "-e", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert '"ksqlServiceId":"default_"' in done.stdout
    assert '"@type":"sourceDescription"' in done.stdout
    assert '{"status":"ok","seq":0}' in done.stdout
    assert '"columnNames":["ROWTIME","PARTITION","OFFSET","KEY","VALUE"]' in done.stdout
    assert re.search(r"^TWEETS +tweets ", done.stdout, re.MULTILINE)
