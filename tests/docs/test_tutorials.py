"""Readers can follow the tutorials. tests/cli/kafka has the cluster, tests/sql the SQL, tests/connect the connector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.terminals import blocks, commands, laptop_with_servers, started


def test_the_tests_of_the_first_tutorial_pass(pytester: pytest.Pytester) -> None:
    texts = blocks("tutorials/broker-in-tests.md", "python")
    files = {text.splitlines()[0].removeprefix("# "): text for text in texts}
    assert list(files) == ["shop.py", "test_shop.py", "test_faults.py"]
    for name, text in files.items():
        (pytester.path / name).write_text(text)
    assert blocks("tutorials/broker-in-tests.md", "bash") == ["pytest -q\n"]
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=4)


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_first_pipeline_runs_as_printed(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    page = "tutorials/first-pipeline.md"
    [code] = blocks(page, "python")
    assert code == "# large_orders.py\n" + blocks("how-to/run-pipelines.md", "python")[0]
    (tmp_path / "large_orders.py").write_text(code)
    server, produce, *runs = blocks(page, "bash")
    first, second = ([json.loads(line) for line in text.splitlines()] for text in blocks(page, "text"))
    with laptop_with_servers(tmp_path) as shell, started(shell, server.strip()):
        for line in commands(produce):
            shell(line)
        printed = [[shell(line) for line in commands(run)] for run in runs]
    assert [json.loads(line) for line in printed[0][-1]] == first
    assert [json.loads(line) for line in printed[1][-1]] == second
    assert any("large_orders" in line for line in printed[2][1])
