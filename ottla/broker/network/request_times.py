"""Fair share of the event loop, and the times of requests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic, monotonic_ns
from typing import TYPE_CHECKING

from ottla.monitoring.metrics.text import Histogram

if TYPE_CHECKING:
    from ottla.broker.network.request_context import Api, ApiVersion

# Fair share of the event loop: how much a connection may send per turn.

# Turn size while several connections are active.
SHARED_BYTES = 64 * 1024
# Turn size of a single active connection. Large turns need fewer calls; a new client waits for at most one of them.
ALONE_BYTES = 1024 * 1024
_ALONE_AFTER_SECONDS = 0.1


class Turns:
    """A turn grows while only one connection is active, and shrinks as soon as another becomes active.

    A client with at least ten requests a second therefore never waits for another client's large turn. Owner: the event
    loop.
    """

    __slots__ = ("_active", "_clock", "_since")

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._active: object = None  # the most recently active connection
        self._since = 0.0  # start of its exclusive activity

    def note(self, connection: object) -> None:
        if connection is not self._active:
            self._active = connection
            self._since = self._clock()

    def is_alone(self, connection: object) -> bool:
        return connection is self._active and self._clock() - self._since >= _ALONE_AFTER_SECONDS


# Request times, split as in Kafka: request queue, local, remote, response queue, response send.
#
# Timing a request reads the clock five times, too expensive for every request. Under load only one of many requests is
# timed and represents the untimed ones. Kafka keeps samples as well.

# Target number of timed requests between two calls of `adapt`. At the upper limit the sampling interval doubles.
_WANTED = 5
_MOST = 10
# uvloop knows the start of its turn in whole milliseconds.
_LOOP_CLOCK_NS = 1_000_000

# Kafka's names, in processing order.
PHASES = (
    "totaltimems",
    "requestqueuetimems",
    "localtimems",
    "remotetimems",
    "responsequeuetimems",
    "responsesendtimems",
)


class RequestTimes:
    """Times of one request type in microseconds, by phase."""

    __slots__ = ("phases",)

    def __init__(self) -> None:
        self.phases = tuple(Histogram() for _ in PHASES)

    def add(self, weight: int, *times: int) -> None:
        for histogram, time in zip(self.phases, times, strict=True):
            histogram.add(time, weight)


class RequestTiming:
    """A timed request. Invariant: times are nanoseconds in the order of the slots; 0 means not reached yet."""

    __slots__ = (
        "_times",
        "_weight",
        "api",
        "began",
        "completed",
        "dispatched",
        "handled",
        "is_of_follower",
        "sending",
        "to_send",
    )

    def __init__(self, times: TimedTurns, api: Api, weight: int) -> None:
        self._times = times
        self._weight = weight
        self.api = api
        self.dispatched = monotonic_ns()
        self.began = min(times.began, times.polled, self.dispatched)
        self.handled = 0
        self.completed = 0
        self.sending = 0
        self.to_send = 0  # bytes up to the end of this response
        self.is_of_follower = False

    def waits(self) -> None:
        """The handler has returned without a response."""
        self.handled = monotonic_ns()

    def complete(self) -> None:
        """The response is ready."""
        self.completed = monotonic_ns()
        if not self.handled:
            self.handled = self.completed

    def sent(self) -> None:
        """The last byte was passed to the socket."""
        now = monotonic_ns()
        completed = self.completed or now  # some requests expect no response
        handled = self.handled or now
        sending = self.sending or now
        self._times.add(
            self,
            self._weight,
            (now - self.began) // 1000,
            (self.dispatched - self.began) // 1000,
            (handled - self.dispatched) // 1000,
            (completed - handled) // 1000,
            (sending - completed) // 1000,
            (now - sending) // 1000,
        )


class TimedTurns(Turns):
    """Event loop turns with their start time, and the choice of timed requests. Owner: the event loop."""

    __slots__ = ("_every", "_loop_time", "_of", "_seen", "_served", "_timed", "began")

    def __init__(self, loop_time: Callable[[], float]) -> None:
        super().__init__()
        self._loop_time = loop_time
        self.began = monotonic_ns()
        self._served: list[ApiVersion] = []
        self._every = 1  # times one of this many requests per API
        self._timed = 0  # timed requests since the last `adapt`
        self._seen = 0  # requests represented by the timed ones
        self._of: dict[str, RequestTimes] = {}

    def note(self, connection: object) -> None:
        self.began = now = monotonic_ns()
        if connection is not self._active:
            self._active = connection
            self._since = now / 1e9

    @property
    def polled(self) -> int:
        """Return the start of the current turn; other requests readable then were handled before this one."""
        return int(self._loop_time() * 1e9) + _LOOP_CLOCK_NS

    def begin(self, served: ApiVersion) -> RequestTiming:
        """Time this request, weighted with all requests since the last timed one."""
        if not served.last_timed:
            self._served.append(served)
        weight = served.requests - served.last_timed
        self._timed += 1
        self._seen += weight
        if self._timed >= _MOST:
            self._timed = 0
            self._every *= 2
        served.last_timed = served.requests
        served.timed_at = served.requests + self._every
        return RequestTiming(self, served.api, weight)

    def adapt(self) -> None:
        """Adjust the sampling to the recent load; called ten times a second."""
        self._every = max(1, self._seen // _WANTED)
        self._seen = self._timed = 0
        for served in self._served:
            served.timed_at = min(served.timed_at, served.requests + self._every)

    def add(self, timing: RequestTiming, weight: int, *times: int) -> None:
        name = timing.api.name
        self.of(name).add(weight, *times)
        if name == "Fetch":
            self.of("FetchFollower" if timing.is_of_follower else "FetchConsumer").add(weight, *times)

    def of(self, name: str) -> RequestTimes:
        found = self._of.get(name)
        if found is None:
            found = self._of[name] = RequestTimes()
        return found

    def __iter__(self) -> Iterator[tuple[str, RequestTimes]]:
        return iter(sorted(self._of.items()))

    def rotate(self) -> None:
        for times in self._of.values():
            for histogram in times.phases:
                histogram.rotate()
