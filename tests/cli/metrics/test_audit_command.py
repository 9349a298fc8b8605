"""`ottla audit`, as a process."""

from __future__ import annotations


def test_a_lost_record_is_found_and_a_copy_that_is_whole_balances(ottla, unique):
    source, copy, tier_counts = unique("source"), unique("copy"), unique("audit-counts")
    keep = ("--audit-topic", tier_counts)
    ottla("topics", "create", source)
    ottla("topics", "create", copy)
    ottla("produce", source, stdin=b"a\nb\nc\n")
    ottla("produce", copy, stdin=b"a\nb\n")
    counted = ottla("audit", "count", source, "--as", "orders", "--tier", "source", "--bucket", 86_400, *keep)
    assert counted.text == f"{source}: 3 records counted as source\n"
    alone = ottla("audit", "balance", *keep, check=False)
    assert alone.code == 1
    assert "There is nothing to compare: only the tier source counts." in alone.err
    ottla("audit", "count", copy, "--as", "orders", "--tier", "mirror", "--bucket", 86_400, *keep)
    early = ottla("audit", "balance", *keep)
    assert early.text == "The counts balance.\n"  # the day is not over
    found = ottla("audit", "balance", "--tiers", "source,nobody", "--json", *keep)
    assert found.json == []
    for topic in (source, copy, tier_counts):
        ottla("topics", "delete", topic, "--yes")


def test_without_counts_it_says_how_to_begin(ottla, unique):
    refused = ottla("audit", "balance", "--audit-topic", unique("audit-counts"), check=False)
    assert refused.code == 1
    assert "begin with `ottla audit count TOPIC --tier source`" in refused.err
