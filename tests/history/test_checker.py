"""The checker catches each anomaly, and reports nothing for a clean history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.history.checker import History, Outcome, Poll, Reposition, Send, Transaction, check

OK, FAILED, UNKNOWN = Outcome.OK, Outcome.FAILED, Outcome.UNKNOWN


def kinds(*events: Send | Poll | Reposition | Transaction) -> list[str]:
    return [anomaly.kind for anomaly in check(History(list(events)))]


def sent(value: str, offset: int | None, outcome: Outcome = OK, **more: str) -> Send:
    return Send("p", 0, value, outcome, offset, **more)


def polled(*records: tuple[int, str], consumer: str = "c") -> Poll:
    return Poll(consumer, tuple((0, offset, value) for offset, value in records))


GOOD = (sent("a", 0), sent("b", 1), sent("c", 2), polled((0, "a"), (1, "b")), polled((2, "c")))


def test_a_good_history_has_no_anomaly() -> None:
    assert kinds(*GOOD) == []


def test_an_acknowledged_record_that_was_read_past_is_a_lost_write() -> None:
    assert "lost-write" in kinds(sent("a", 0), sent("b", 1), polled((1, "b")))


def test_an_acknowledged_record_at_the_end_that_nobody_read_is_unseen() -> None:
    assert kinds(sent("a", 0), sent("b", 1), polled((0, "a"))) == ["unseen"]


def test_a_record_that_is_there_twice_is_a_duplicate() -> None:
    assert "duplicate" in kinds(sent("a", 0), polled((0, "a"), (1, "a")))


def test_an_offset_with_two_values_is_inconsistent() -> None:
    assert "inconsistent-offsets" in kinds(sent("a", 0), polled((0, "b")), polled((0, "a"), consumer="d"))


def test_a_refused_record_that_is_read_is_an_aborted_read() -> None:
    assert kinds(sent("a", None, FAILED), polled((0, "a"))) == ["aborted-read"]


def test_a_record_of_an_aborted_transaction_that_is_read_is_an_aborted_read() -> None:
    aborted = (sent("a", 0, transaction="t"), Transaction("t", FAILED))
    assert kinds(*aborted, polled((0, "a"))) == ["aborted-read"]
    assert kinds(*aborted) == []


def test_a_record_of_a_committed_transaction_must_be_read() -> None:
    committed = (sent("a", 0, transaction="t"), Transaction("t", OK))
    assert kinds(*committed) == ["unseen"]
    assert kinds(sent("a", 0, transaction="t"), Transaction("t", UNKNOWN)) == []


def test_a_transaction_of_which_only_a_part_is_there_is_torn() -> None:
    both = (sent("a", 0, transaction="t"), sent("b", 1, transaction="t"), Transaction("t", UNKNOWN))
    assert kinds(*both, polled((0, "a"))) == ["torn-transaction"]
    assert kinds(*both, polled((0, "a"), (1, "b"))) == []
    assert kinds(*both) == []


def test_offsets_that_go_back_between_sends_are_nonmonotonic() -> None:
    assert kinds(sent("b", 1), sent("a", 0), polled((0, "a"), (1, "b"))) == ["nonmonotonic-send"]


def test_a_consumer_that_goes_back_is_nonmonotonic_unless_it_was_repositioned() -> None:
    back = polled((0, "a"))
    assert kinds(*GOOD, back) == ["nonmonotonic-poll"]
    assert kinds(*GOOD, Reposition("c"), back) == []


def test_a_consumer_that_leaves_something_out_has_skipped() -> None:
    whole = polled((0, "a"), (1, "b"), (2, "c"), consumer="whole")
    assert kinds(*GOOD[:3], whole, polled((0, "a"), (2, "c"))) == ["poll-skip"]


def test_a_record_without_an_answer_may_be_there_or_not() -> None:
    assert kinds(sent("a", None, UNKNOWN), polled((0, "a"))) == []
    assert kinds(sent("a", None, UNKNOWN)) == []


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(1, 7))
def test_any_honest_log_passes(partitions: list[int], batch: int) -> None:
    """Holds for any distribution of records over partitions and polls."""
    logs: dict[int, list[str]] = {0: [], 1: [], 2: []}
    events: list[Send | Poll] = []
    for number, partition in enumerate(partitions):
        events.append(Send(f"p{number % 3}", partition, f"v{number}", OK, len(logs[partition])))
        logs[partition].append(f"v{number}")
    for partition, values in logs.items():
        records = [(partition, offset, value) for offset, value in enumerate(values)]
        events += [Poll("c", tuple(records[at : at + batch])) for at in range(0, len(records), batch)]
    assert check(History(list(events))) == []
