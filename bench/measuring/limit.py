"""What the machine allows: the same work done by nothing but sockets and files.

``python -m bench.measuring.limit DIRECTORY`` is a bare server without event loop, protocol or log. What it does on
a connection is decided by the first byte that comes: ``W`` write all that follows to a file and answer
when the client is done; ``R`` send a file of the size that follows, with sendfile; anything else is
the size of a Kafka frame, and every frame gets the answer of a Produce request to topic "limit".
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from types import TracebackType

from bench.measuring import wire
from bench.peers.brokers import allow_many_files

CHUNK = 1 << 20
TOPIC = "limit"
# A Produce v9 answer: one topic, one partition, no error, offset -1 ("not counted").
_BODY = (
    struct.pack(">ib", 1, 0)
    + b"\x02"
    + wire.compact(TOPIC.encode())
    + b"\x02"
    + struct.pack(">ihqqq", 0, 0, -1, -1, 0)
    + b"\x01\0\0\0"
    + struct.pack(">i", 0)
    + b"\0"
)
ANSWER = struct.pack(">i", len(_BODY)) + _BODY
# ApiVersions v0: correlation id 1, no error, no keys.
READY = struct.pack(">iihi", 10, 1, 0, 0)


def serve(directory: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(listener.getsockname()[1], flush=True)
    poll = selectors.EpollSelector()
    poll.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in poll.select():
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                poll.register(connection, selectors.EVENT_READ, _Frames())
                continue
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            try:
                data = connection.recv(1 << 18)
                if data and data[:1] in b"WR":
                    poll.unregister(connection)
                    work = sink if data[:1] == b"W" else source
                    threading.Thread(target=work, args=(connection, data, directory), daemon=True).start()
                    continue
                if data:
                    connection.sendall(key.data.answers(data))
                    continue
            except OSError:
                pass
            poll.unregister(connection)
            connection.close()


class _Frames:
    """Counts the frames that are complete in a stream of bytes."""

    def __init__(self) -> None:
        self._rest = b""

    def answers(self, data: bytes) -> bytes:
        data = self._rest + data
        position, count = 0, 0
        end = len(data)
        while end - position >= 4:
            size = 4 + int.from_bytes(data[position : position + 4], "big")
            if end - position < size:
                break
            if data[position + 5] == wire.API_VERSIONS:
                self._rest = data[position + size :]
                return READY
            position += size
            count += 1
        self._rest = data[position:]
        return ANSWER * count


def sink(connection: socket.socket, first: bytes, directory: Path) -> None:
    buffer = memoryview(bytearray(CHUNK))
    with connection, tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        file.write(first[1:])
        while got := connection.recv_into(buffer):
            file.write(buffer[:got])
        connection.sendall(b"!")


def source(connection: socket.socket, first: bytes, directory: Path) -> None:
    while len(first) < 9:
        first += connection.recv(9 - len(first))
    (size,) = struct.unpack_from(">q", first, 1)
    with connection, tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(size // CHUNK):
            file.write(bytes(CHUNK))
        connection.sendall(b"!")  # the file is there, in the page cache; the clock starts
        for number in range(size // CHUNK):
            done = 0
            while done < CHUNK:
                done += os.sendfile(connection.fileno(), file.fileno(), number * CHUNK + done, CHUNK - done)


class BareServer:
    """The bare server as a process, with the clients that measure it."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="ottla-bench-limit-")
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.measuring.limit", self._directory.name],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        wire.wait_until_ready("127.0.0.1", self.port)
        self.startup_seconds = time.perf_counter() - began
        self.pid = self._process.pid

    def write_mb_per_s(self, size: int) -> float:
        """Send `size` bytes in large pieces to a server that writes them to a file."""
        piece = bytes(CHUNK)
        count = max(1, size // CHUNK)
        with wire.connect("127.0.0.1", self.port) as connection:
            began = time.perf_counter()
            connection.sendall(b"W")
            for _ in range(count):
                connection.sendall(piece)
            connection.shutdown(socket.SHUT_WR)
            wire.read_exactly(connection, 1)
            return count * CHUNK / (time.perf_counter() - began) / 1e6

    def read_mb_per_s(self, size: int) -> float:
        """Receive `size` bytes from a server that sends them from a file in the page cache."""
        buffer = bytearray(CHUNK)
        left = total = max(1, size // CHUNK) * CHUNK
        with wire.connect("127.0.0.1", self.port) as connection:
            connection.sendall(b"R" + struct.pack(">q", total))
            wire.read_exactly(connection, 1)
            began = time.perf_counter()
            while left:
                got = connection.recv_into(buffer)
                if not got:
                    raise ConnectionError("the bare server closed the connection")
                left -= got
            return total / (time.perf_counter() - began) / 1e6

    def __enter__(self) -> BareServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._directory.cleanup()


if __name__ == "__main__":
    allow_many_files()
    serve(Path(sys.argv[1]))
