"""Promise: under any order of appends, the log gives each batch at most one decision, by the run in charge."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow")

from hypothesis import given
from hypothesis import strategies as st

from ottla.client.errors import ClientError
from ottla.client.transactions import Transaction
from ottla.spark.sink.exactly_once.commit_log import CommitState

ONE = (Transaction("a", 1, 0), Transaction("b", 2, 0))
OTHER = (Transaction("c", 3, 0),)


def replay(records: list[bytes], start: int = 0) -> CommitState:
    state = CommitState()
    for offset, record in enumerate(records[start:], start):
        state = state.after(offset, record)
    return state


def test_the_first_decision_of_a_batch_counts() -> None:
    log = [CommitState().begin("run")]
    state = replay(log)
    log += [state.decide(0, ONE), state.decide(0, OTHER)]
    state = replay(log)
    assert state.decision is not None
    assert (state.decision.transactions, state.done) == (ONE, False)
    log.append(state.finish(0))
    assert replay(log).done


def test_a_run_that_was_superseded_decides_nothing() -> None:
    log = [CommitState().begin("old")]
    old = replay(log)
    log.append(old.begin("new"))
    assert not replay([*log, old.decide(0, ONE)]).is_decided(0)
    new = replay(log)
    assert (new.run, new.generation, new.earlier_runs) == ("new", 2, ("old",))
    assert replay([*log, new.decide(0, OTHER)]).is_decided(0)


def test_of_two_runs_that_begin_at_once_the_first_is_in_charge() -> None:
    log = [CommitState().begin("one"), CommitState().begin("two")]
    assert (replay(log).run, replay(log).generation) == ("one", 1)


def test_what_was_decided_before_a_run_began_holds() -> None:
    log = [CommitState().begin("old")]
    log.append(replay(log).decide(7, ONE))
    log.append(replay(log).begin("new"))
    state = replay(log)
    assert state.is_decided(7)
    assert not state.done
    assert replay([*log, state.decide(7, OTHER)]).decision == state.decision


def test_a_batch_that_is_undone_can_be_decided_again() -> None:
    log = [CommitState().begin("run")]
    log.append(replay(log).decide(3, ONE))
    log.append(replay(log).undo(3))
    assert not replay(log).is_decided(3)
    log.append(replay(log).decide(3, OTHER))
    state = replay(log)
    assert state.decision is not None
    assert state.decision.transactions == OTHER


def test_what_is_done_cannot_be_undone() -> None:
    log = [CommitState().begin("run")]
    log.append(replay(log).decide(3, ONE))
    log.append(replay(log).finish(3))
    assert replay([*log, replay(log).undo(3)]).is_decided(3)


def test_a_batch_without_rows_is_done_when_it_is_decided() -> None:
    log = [CommitState().begin("run")]
    log.append(replay(log).decide(3, ()))
    assert replay(log).done


@given(st.lists(st.tuples(st.sampled_from(["begin", "decide", "finish"]), st.integers(0, 3)), max_size=40))
def test_a_log_that_was_cut_off_before_a_decision_says_the_same(
    steps: list[tuple[str, int]],
) -> None:
    """Four runs append in any order, each based on its latest read."""
    log: list[bytes] = []
    seen = [CommitState()] * 4
    for step, run in steps:
        state = seen[run]
        if step == "begin":
            log.append(state.begin(f"run {run}"))
        elif step == "decide" and state.run == f"run {run}":
            batch = 0 if state.decision is None else state.decision.batch + 1
            log.append(state.decide(batch, ONE))
        elif step == "finish" and state.decision is not None:
            log.append(state.finish(state.decision.batch))
        seen[run] = replay(log)
    state = replay(log)
    if state.decision is not None:
        assert replay(log, state.decision.offset) == state


def test_a_record_of_a_newer_version_is_refused_with_a_sentence() -> None:
    with pytest.raises(ClientError, match=r"A newer version of Ottla has run this query\. Update Ottla"):
        replay([b'{"version":2,"kind":"begin"}'])


def test_records_of_the_first_version_count() -> None:
    """Records of version 1 have no version field."""
    log = [CommitState().begin("old").replace(b'"version":1,', b"")]
    assert b"version" not in log[0]
    assert replay(log).run == "old"
