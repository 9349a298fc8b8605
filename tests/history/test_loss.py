"""The rule for losses after an unclean election catches every loss that it does not allow."""

from __future__ import annotations

from tests.history.checker import Outcome, Poll, Send
from tests.history.loss import Event, Final, Loss, check_losses

LOSS = Loss(partition=0, epoch=7, left_isr=100.0, ended=110.0)
# Two records survived; the newly elected leader wrote the third.
LOG = [Final(0, "p-0", 5), Final(1, "p-1", 5), Final(2, "p-9", 7)]


def kinds(
    *events: tuple[float, Event], log: list[Final] = LOG, losses: tuple[Loss, ...] = (LOSS,)
) -> list[str]:
    return [anomaly.kind for anomaly in check_losses(events, {0: log}, losses)[0]]


def sent(value: str, offset: int) -> Send:
    return Send("p", 0, value, Outcome.OK, offset)


def test_what_came_after_the_elected_one_had_left_the_isr_may_be_gone() -> None:
    history = [(99.0, sent("p-1", 1)), (105.0, sent("p-2", 2)), (105.0, Poll("c", ((0, 2, "p-2"),)))]
    assert check_losses(history, {0: LOG}, [LOSS]) == ([], 1)


def test_without_an_unclean_election_nothing_may_be_gone() -> None:
    assert kinds((105.0, sent("p-2", 2)), losses=()) == ["lost-write"]
    assert kinds((105.0, sent("p-2", 2)), losses=(LOSS._replace(partition=1),)) == ["lost-write"]


def test_what_came_while_the_elected_one_was_in_sync_must_be_there() -> None:
    assert kinds((99.0, sent("p-2", 2))) == ["lost-write"]
    assert kinds((99.0, Poll("c", ((0, 2, "p-2"),)))) == ["lost-read"]


def test_what_came_after_the_election_must_be_there() -> None:
    assert kinds((120.0, sent("p-2", 2))) == ["lost-write"]


def test_what_is_gone_was_replaced_by_whoever_was_elected() -> None:
    assert kinds((105.0, sent("p-3", 1))) == ["lost-write"], "there is something of the epoch before"
    assert kinds((105.0, sent("p-3", 3))) == [], "nothing has come instead yet"


def test_the_log_has_no_holes_and_keeps_its_order() -> None:
    assert kinds(log=[Final(0, "p-0", 5), Final(2, "p-1", 5)]) == ["hole"]
    assert kinds(log=[Final(0, "p-1", 5), Final(1, "p-0", 5)]) == ["reordered"]


def test_a_record_may_be_there_twice_only_on_both_sides_of_an_unclean_election() -> None:
    assert kinds(log=[Final(0, "p-0", 5), Final(1, "p-0", 5)]) == ["duplicate"]
    assert kinds(log=[Final(0, "p-0", 7), Final(1, "p-0", 8)]) == ["duplicate"]
    assert kinds(log=[Final(0, "p-0", 5), Final(1, "p-0", 7)]) == []
