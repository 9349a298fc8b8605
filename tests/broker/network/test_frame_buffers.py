"""Promise: the broker reuses buffers for large requests, and the memory kept for reuse is bounded."""

from __future__ import annotations

from ottla.broker.network.wire import FrameBuffers

MB = 1024 * 1024


def test_a_buffer_that_was_given_back_serves_the_next_request_that_fits() -> None:
    buffers = FrameBuffers()
    given = buffers.take(6 * MB)
    buffers.give_back(given)
    assert buffers.take(7 * MB) is not given
    assert buffers.take(5 * MB) is given
    assert buffers.take(5 * MB) is not given


def test_the_oldest_goes_when_too_much_is_kept() -> None:
    buffers = FrameBuffers()
    given = [buffers.take(10 * MB) for _ in range(4)]
    for each in given:
        buffers.give_back(each)
    taken = [buffers.take(10 * MB) for _ in range(4)]
    assert [id(each) for each in taken[:3]] == [id(each) for each in given[1:]]
    assert all(taken[3] is not each for each in given)


def test_what_only_a_single_large_request_needs_is_not_kept() -> None:
    buffers = FrameBuffers()
    given = buffers.take(17 * MB)
    buffers.give_back(given)
    assert buffers.take(17 * MB) is not given
