"""`ottla canary`, as a process."""

from __future__ import annotations


def test_a_round_is_a_line_or_an_object(ottla, unique):
    topic = unique("canary")
    line = ottla("canary", "--topic", topic, "--rounds", 1).text
    assert "1 broker: 10 records written, 0 lost, 0 failed, latency " in line
    found = ottla("canary", "--topic", topic, "--rounds", 1, "--json", "--metrics", "127.0.0.1:0")
    assert found.json["lost"] == 0
    assert found.json["acknowledged"] == 10
    assert "Metrics at http://127.0.0.1:" in found.err
    ottla("topics", "delete", topic, "--yes")


def test_without_a_cluster_it_says_so(alone):
    refused = alone("canary", "--rounds", 1, "--timeout", 0.5, check=False)
    assert refused.code == 1
    assert refused.err.startswith("Error: Cannot reach a broker")
