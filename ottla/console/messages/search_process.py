"""Search a topic in a separate process: `python -m ottla.console.messages.search_process`.

It reads one line of JSON, the job, and writes lines of JSON: progress, hits, and the outcome. Limits on memory and time
keep a visitor's expression from harming the console. Closing its output ends the process.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NoReturn

from ottla.client.admin.offsets import latest_offsets
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.fetch import Fetched, FetchOptions, PartitionFetcher
from ottla.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from ottla.client.schema_codecs import SchemaCodecs
from ottla.client.schema_registry import RegistrySettings, SchemaRegistry
from ottla.client.settings import Settings
from ottla.console.messages.decoding import Decoder, Masker, ShownMessage
from ottla.console.messages.reading import Batch, batches, message_of, next_offset
from ottla.console.messages.scanning import BadQuery, Query, Scanner, matcher
from ottla.console.settings import Mask
from ottla.protocol.errors import KafkaError
from ottla.protocol.records import read_batch

_MEMORY = 2 << 30
_CPU_SECONDS = 900
_FETCH_BYTES = 4 << 20
_SAY_EVERY = 0.25
#: Offsets of the first window of a search backwards. The size of its records sets the width of the next one.
_FIRST_WIDTH = 1000
_MOST_WIDTH = 1_000_000
FOLLOW_EVERY = 0.4
#: If more messages than these arrive in a partition at once, only the newest are looked at.
FOLLOW_AT_ONCE = 200
FOLLOW_QUIET = 15.0


@dataclass
class _Backwards:
    """One partition of a search from the end. Records below `end` are still to be read."""

    number: int
    start: int
    end: int
    width: int
    #: No record below `end` is newer, as long as the timestamps of the partition rise.
    newest: float = float("inf")
    hits: deque[ShownMessage] = field(default_factory=deque)  # newest first

    @property
    def is_read(self) -> bool:
        return self.end <= self.start

    def rank(self, timestamp: float) -> tuple[float, int]:
        return timestamp, -self.number

    def next_end(self) -> int:
        """Return the offset below which the next page continues."""
        return self.hits[0].offset + 1 if self.hits else self.end


class Search:
    def __init__(self, job: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> None:
        self._say = say
        self._topic: str = job["topic"]
        self._ranges = {int(number): (start, end) for number, (start, end) in job["ranges"].items()}
        self._limit: int = job["limit"]
        self._committed_only: bool = job["committed_only"]
        self._newest_first: bool = job["newest_first"]
        self._follows: bool = job["follow"]
        query = Query(**{**job["query"], "places": tuple(job["query"]["places"])})
        self._matches = matcher(query)
        masks = [Mask(tuple(each["topics"]), tuple(each["fields"]), each["replace"]) for each in job["masks"]]
        self._mask = Masker(masks) if masks else None
        registry = job.get("registry")
        codecs = None
        if registry:
            settings = RegistrySettings.from_properties({"schema.registry.url": registry})
            codecs = SchemaCodecs(SchemaRegistry(settings))
        self._decoder = Decoder(codecs)
        self._scanner = Scanner(self._topic, query, self._decoder, masked=bool(masks))
        self._cluster = Cluster(Settings.from_properties(job["properties"], client_id="ottla-console-search"))
        self.seen = self.bytes = self.found = 0
        self.total = sum(max(end - start, 0) for start, end in self._ranges.values())
        self._done = 0
        self._said = 0.0
        #: Where the next page continues, by partition, if this one is full.
        self.next: dict[int, int] = {}

    def run(self) -> None:
        try:
            self._search()
        finally:
            self._cluster.close()

    def _search(self) -> None:
        if self._follows:
            self._follow()
        if self._newest_first:
            self._search_backwards()
            return
        for number in sorted(self._ranges):
            for message in self._matching(number):
                self._hit(message)
                if self.found >= self._limit:
                    later = {each: start for each, (start, _) in self._ranges.items() if each > number}
                    self.next = {number: message.offset + 1, **later}
                    return
        self._progress(always=True)

    def _hit(self, message: ShownMessage) -> None:
        self.found += 1
        self._say({"hit": asdict(message)})

    # Live

    def _follow(self) -> NoReturn:
        positions = {(self._topic, number): end for number, (_, end) in self._ranges.items()}
        self._progress(always=True)  # the page shows messages from here
        while True:
            time.sleep(FOLLOW_EVERY)
            ends = latest_offsets(self._cluster, list(positions))
            new: list[ShownMessage] = []
            for key, end in ends.items():
                if end > positions[key]:
                    self._ranges[key[1]] = (max(positions[key], end - FOLLOW_AT_ONCE), end)
                    new += self._matching(key[1])
            positions = ends
            for message in sorted(new, key=lambda each: each.timestamp)[-FOLLOW_AT_ONCE:]:
                self._hit(message)
            self._progress(always=bool(new) or time.monotonic() - self._said > FOLLOW_QUIET)

    # From the end

    def _search_backwards(self) -> None:
        """Merge the hits of all partitions, newest first. Read a window only if it may hold the next hit."""
        partitions = [
            _Backwards(number, *bounds, _FIRST_WIDTH) for number, bounds in sorted(self._ranges.items())
        ]
        while self.found < self._limit:
            found = [each for each in partitions if each.hits]
            unread = [each for each in partitions if not each.hits and not each.is_read]
            best = max(found, key=lambda each: each.rank(each.hits[0].timestamp), default=None)
            next_read = max(unread, key=lambda each: each.rank(each.newest), default=None)
            if next_read is not None and (
                best is None or next_read.rank(next_read.newest) > best.rank(best.hits[0].timestamp)
            ):
                self._read_window(next_read)
                self._progress()
            elif best is not None:
                self._hit(best.hits.popleft())
            else:
                break
        left = {each.number: each.next_end() for each in partitions if each.hits or not each.is_read}
        self.next = left if self.found >= self._limit else {}
        self._progress(always=True)

    def _read_window(self, partition: _Backwards) -> None:
        start, end = max(partition.start, partition.end - partition.width), partition.end
        fetcher = self._fetcher(partition.number)
        self._scanner.partition = partition.number
        hits: deque[ShownMessage] = deque(maxlen=self._limit - self.found)
        size, position, first = 0, start, start
        oldest: float | None = None
        try:
            while position < end:
                fetched = self._fetch(fetcher, position)
                following = next_offset(fetched, position)
                for batch in batches(fetched, self._committed_only):
                    header = batch.header
                    if header.base_offset >= end:
                        break
                    # The fetch returns the whole first batch: read it now rather than in two windows.
                    first = max(min(first, header.base_offset), partition.start)
                    size += header.size
                    within = min(header.next_offset, end) - max(header.base_offset, first)
                    self.seen += min(max(header.record_count, 1), within)
                    if oldest is None:
                        oldest = header.max_timestamp
                    if self._scanner.may_have(batch):
                        hits.extend(self._of_batch(partition.number, batch, first, end))
                if following == position:
                    break
                position = following
        finally:
            fetcher.close()
        self.bytes += size
        self._done += end - first
        # A full page leaves out older hits of the window: the next page reads them again.
        partition.end = hits[0].offset if len(hits) == hits.maxlen else first
        partition.hits = deque(reversed(hits))
        if oldest is not None:
            partition.newest = min(partition.newest, oldest)
        per_offset = size / max(end - first, 1)
        wanted = _FETCH_BYTES * 0.9 / per_offset if per_offset else partition.width * 4
        partition.width = int(min(max(wanted, 1), partition.width * 8, _MOST_WIDTH))

    def _fetcher(self, number: int) -> PartitionFetcher:
        isolation = READ_COMMITTED if self._committed_only else READ_UNCOMMITTED
        options = FetchOptions(max_bytes=_FETCH_BYTES, max_wait_ms=100, isolation_level=isolation)
        return PartitionFetcher(self._cluster, TopicPartition(self._topic, number), options)

    def _fetch(self, fetcher: PartitionFetcher, offset: int) -> Fetched:
        return self._cluster.retrying(lambda: fetcher.fetch(offset), [self._topic])

    # From the beginning

    def _matching(self, number: int) -> Iterator[ShownMessage]:
        start, end = self._ranges[number]
        before = self._done
        fetcher = self._fetcher(number)
        first = start
        self._scanner.partition = number
        try:
            while start < end:
                position = start
                fetched = self._fetch(fetcher, position)
                start = next_offset(fetched, position)
                if position < start < end:
                    fetcher.fetch_ahead(start)  # the broker reads ahead during the search
                self.bytes += len(fetched.records)
                for batch in batches(fetched, self._committed_only):
                    if batch.header.base_offset >= end:
                        break
                    within = min(batch.header.next_offset, end) - max(batch.header.base_offset, position)
                    self.seen += min(max(batch.header.record_count, 1), within)
                    if self._scanner.may_have(batch):
                        yield from self._of_batch(number, batch, position, end)
                self._done = before + min(start, end) - first
                self._progress()
                if start == position:
                    break
        finally:
            fetcher.close()
        self._done = before + end - first

    def _of_batch(self, number: int, batch: Batch, start: int, end: int) -> Iterator[ShownMessage]:
        judge = self._scanner.judge
        for record in read_batch(batch.buffer, batch.position):
            if record.offset < start:
                continue
            if record.offset >= end:
                return
            verdict = judge(record)
            if verdict is False:
                continue
            shown = self._decoder.message(message_of(self._topic, number, batch, record))
            if self._mask is not None:
                shown = self._mask(shown)
            if verdict or self._matches(shown):
                yield shown

    def _progress(self, *, always: bool = False) -> None:
        now = time.monotonic()
        if always or now - self._said > _SAY_EVERY:
            self._said = now
            self._say({"progress": {"done": self._done, "total": self.total, **self.counts}})

    @property
    def counts(self) -> dict[str, int]:
        return {"seen": self.seen, "bytes": self.bytes, "found": self.found}


def main() -> None:
    for limit, value in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, _CPU_SECONDS)):
        resource.setrlimit(limit, (value, value))

    def say(line: dict[str, Any]) -> None:
        sys.stdout.write(json.dumps(line, ensure_ascii=True) + "\n")
        sys.stdout.flush()

    job = json.loads(sys.stdin.readline())
    try:
        search = Search(job, say)
        search.run()
        say({"end": {**search.counts, "next": search.next}})
    except BadQuery as error:
        say({"failed": str(error)})
    except ClientError as error:
        say({"failed": error.message})
    except KafkaError as error:
        say({"failed": f"The records cannot be read: {error}."})
    except MemoryError:
        say({"failed": "The search needs more memory than it may have."})


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.stderr.close()
        sys.exit(1)
