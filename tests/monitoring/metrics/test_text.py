"""Prometheus' own parser reads back the written metrics."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from ottla.monitoring.metrics.text import Histogram, counter, family, gauge, labels, process_metrics, summary


def test_names_with_quotes_and_line_breaks_come_back() -> None:
    name = 'a "quoted"\\ na\nme'
    text = gauge("some_gauge", "With\na break.", 1.5, labels(topic=name, partition=0))
    [found] = text_string_to_metric_families(text)
    assert found.documentation == "With\na break."
    assert found.samples[0].labels == {"topic": name, "partition": "0"}
    assert found.samples[0].value == 1.5


def test_a_family_without_samples_is_left_out() -> None:
    assert list(family("nothing_total", "counter", "…", [])) == []


def test_a_summary_has_quantiles_a_count_and_a_sum() -> None:
    histogram = Histogram()
    for value in (1000, 2000, 3000):
        histogram.add(value)
    text = "".join(summary("time_ms", "Time.", {labels(request="Produce"): histogram}, scale=0.001))
    [found] = text_string_to_metric_families(text)
    assert found.type == "summary"
    assert {each.labels.get("quantile") for each in found.samples} >= {"0.50", "0.999"}
    by_name = {each.name: each.value for each in found.samples}
    assert by_name["time_ms_count"] == 3
    assert by_name["time_ms_sum"] == 6.0


def test_exact_counts_replace_those_of_samples() -> None:
    histogram = Histogram()
    histogram.add(1000, 10)
    text = "".join(summary("time_ms", "Time.", {"a": histogram}, counts={"a": 20}).__iter__()).replace(
        "{a", '{a="1"'
    )
    by_name = {each.name: each.value for each in next(iter(text_string_to_metric_families(text))).samples}
    assert by_name["time_ms_count"] == 20
    assert by_name["time_ms_sum"] == 20_000


def test_the_process_shows_its_files_and_memory() -> None:
    found = {
        each.name: each.samples[0].value
        for each in text_string_to_metric_families("".join(process_metrics()))
    }
    assert found["process_open_fds"] > 0
    assert found["process_resident_memory_bytes"] > 1_000_000
    assert found["process_cpu_seconds"] > 0


def test_a_counter_ends_with_total() -> None:
    [found] = text_string_to_metric_families(counter("some_total", "…", 3))
    assert (found.type, found.name, found.samples[0].name) == ("counter", "some", "some_total")
