"""The connection between two brokers, against a scripted server."""

from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from ottla.cluster.peers import PeerConnection
from ottla.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from ottla.protocol.messages.groups import HeartbeatRequest, HeartbeatResponse

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(talk: Talk) -> AsyncIterator[PeerConnection]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    peer = PeerConnection("127.0.0.1", listening.sockets[0].getsockname()[1], "test")
    try:
        yield peer
    finally:
        peer.close()
        listening.close()
        await asyncio.sleep(0.01)


async def correlation_id(reader: asyncio.StreamReader) -> int:
    [size] = struct.unpack(">i", await reader.readexactly(4))
    found: int = struct.unpack_from(">hhi", await reader.readexactly(size))[2]
    return found


def frame(correlation: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 5, correlation) + b"\0" + body


async def test_responses_go_to_their_requests_however_they_are_cut() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = b""
        for code in (1, 2, 3):
            data += frame(await correlation_id(reader), HeartbeatResponse(error_code=code).encode(4))
        for at in range(0, len(data), 7):
            writer.write(data[at : at + 7])
            await writer.drain()
            await asyncio.sleep(0.001)

    async with server(talk) as peer:
        answers = await asyncio.gather(*(peer.request(HeartbeatRequest(), 4) for _ in range(3)))
        assert [answer.error_code for answer in answers] == [1, 2, 3]


async def test_records_of_a_large_response_can_be_held_while_others_arrive() -> None:
    def fetched(records: bytes) -> bytes:
        data = PartitionData(aborted_transactions=None, records=records)
        return FetchResponse(responses=[FetchableTopicResponse(partitions=[data])]).encode(17)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, second = await correlation_id(reader), await correlation_id(reader)
        writer.write(frame(first, fetched(b"a" * 3_000_000)) + frame(second, fetched(b"b" * 2_000_000)))
        await writer.drain()
        await reader.read()

    async with server(talk) as peer:
        await peer.connect()
        arrived: list[memoryview] = []
        lost: list[OSError] = []

        def on_response(response: FetchResponse) -> None:
            arrived.append(response.responses[0].partitions[0].records)
            peer.hold()

        for _ in range(2):
            peer.send(FetchRequest(), 17, on_response, lost.append)
        for count, letter in ((1, b"a"), (2, b"b")):
            deadline = asyncio.get_running_loop().time() + 60
            while len(arrived) < count:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            assert len(arrived) == count, "the next one came while this one was held"
            assert bytes(arrived[-1]) == letter * len(arrived[-1])
            peer.release()
        assert not lost


async def test_whoever_waits_is_told_when_the_other_hangs_up() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await correlation_id(reader)

    async with server(talk) as peer:
        answers = await asyncio.gather(
            *(peer.request(HeartbeatRequest(), 4) for _ in range(3)), return_exceptions=True
        )
        assert all(isinstance(answer, OSError) for answer in answers)
        assert peer.is_lost
        with pytest.raises(OSError, match="hung up"):
            await peer.request(HeartbeatRequest(), 4)


@pytest.mark.parametrize("answer", [struct.pack(">ii", 4, 99), struct.pack(">i", -5), frame(1, b"")])
async def test_what_is_no_answer_ends_the_connection(answer: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await correlation_id(reader)
        writer.write(answer)
        await writer.drain()
        await reader.read()

    async with server(talk) as peer:
        with pytest.raises(OSError, match=r"127\.0\.0\.1"):
            await peer.request(HeartbeatRequest(), 4)


async def test_nobody_there_is_an_error_like_any_other() -> None:
    listening = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    listening.close()
    await listening.wait_closed()
    with pytest.raises(ConnectionRefusedError):
        await PeerConnection("127.0.0.1", port, "test").request(HeartbeatRequest(), 4)


async def test_an_error_that_nobody_waits_for_any_more_is_not_logged() -> None:
    loop = asyncio.get_running_loop()
    reported: list[dict[str, object]] = []
    loop.set_exception_handler(lambda _, context: reported.append(context))
    peer = PeerConnection("127.0.0.1", 1, "test")  # a port that refuses connections
    waiting = loop.create_task(peer.connect())
    await asyncio.sleep(0)  # starts connecting
    waiting.cancel()
    await peer.wait_lost()
    del peer, waiting
    gc.collect()
    assert reported == []
