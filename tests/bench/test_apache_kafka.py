import pytest

from bench.peers import apache_kafka
from bench.peers.apache_kafka import (
    TOPICS,
    ApacheKafka,
    Unavailable,
    client_jars,
    kafka_jars,
    resolve,
    run_tool,
    tool_reason,
)


def test_without_java_one_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(Unavailable, match="needs Java 17"):
        kafka_jars()


def test_without_maven_one_sentence_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path))
    monkeypatch.setattr(apache_kafka, "java", lambda: "java")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable, match="no `mvn`"):
        resolve("anything", ["g:a:1"])


def test_what_maven_says_is_passed_on_and_nothing_is_left_in_the_cache(monkeypatch, tmp_path):
    mvn = tmp_path / "bin" / "mvn"
    mvn.parent.mkdir()
    mvn.write_text("#!/bin/sh\necho '[ERROR] Could not transfer artifact'\nexit 1\n")
    mvn.chmod(0o755)
    cache = tmp_path / "cache"
    monkeypatch.setenv("OTTLA_CACHE", str(cache))
    monkeypatch.setattr(apache_kafka, "java", lambda: "java")
    monkeypatch.setenv("PATH", f"{mvn.parent}:/bin:/usr/bin")
    with pytest.raises(Unavailable, match="Could not transfer artifact"):
        resolve("anything", ["g:a:1"])
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_the_innermost_cause_is_taken_out_of_a_stack_trace():
    trace = "Error: outer\n\tat a\nCaused by: x.Middle: m\n\tat b\nCaused by: y.Inner: i\n\tat c"
    assert tool_reason(trace) == "y.Inner: i"
    assert tool_reason("usage\nx.IllegalStateException: no\n\tat a") == "x.IllegalStateException: no"
    assert tool_reason("") == "it said nothing"


@pytest.mark.peers
def test_kafka_starts_serves_its_tools_and_goes_away():
    try:
        client_jars()
        with ApacheKafka() as kafka:
            assert kafka.running
            assert kafka.startup_seconds > 0
            bootstrap = ["--bootstrap-server", kafka.bootstrap_servers]
            run_tool(TOPICS, [*bootstrap, "--create", "--topic", "orders", "--partitions", "3"])
            assert run_tool(TOPICS, [*bootstrap, "--list"]).stdout.split() == ["orders"]
            assert (kafka.log_dir / "orders-2" / "00000000000000000000.log").exists()
        assert not kafka.running
        assert not kafka.directory.exists()
    except Unavailable as missing:
        pytest.skip(str(missing))
