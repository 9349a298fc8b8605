"""Client quotas: rates over Kafka's sliding windows, token buckets, and the quota of each client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.metadata.client_quotas import (
    CLIENT_ID,
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    IP,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
    entity,
)
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.metadata.configs.broker_config import BrokerConfig
    from ottla.protocol.codec import Response

# Rates over Kafka's sliding windows (quota.window.num, quota.window.size.seconds), and token buckets.


class Rate:
    """A rate per second over at most `windows` windows, including the current one.

    Invariant: windows are in chronological order, and none is older than the total span. Missing windows count as
    empty, so that an initial burst does not look like a high rate. Owner: the event loop; the caller supplies the
    clock.
    """

    __slots__ = ("_length", "_samples", "_windows")

    def __init__(self, windows: int, seconds: float) -> None:
        self._windows = windows
        self._length = seconds
        self._samples: deque[list[float]] = deque()  # start of the window, amount counted in it

    def record(self, amount: float, now: float) -> None:
        samples = self._samples
        if not samples or now - samples[-1][0] >= self._length:
            samples.append([now, 0.0])
            if len(samples) > self._windows:
                samples.popleft()
        samples[-1][1] += amount

    def measure(self, now: float) -> float:
        return self._total(now) / self._elapsed(now)

    def _total(self, now: float) -> float:
        samples, oldest = self._samples, now - self._windows * self._length
        while samples and samples[0][0] <= oldest:
            samples.popleft()
        return sum(amount for _, amount in samples)

    def _elapsed(self, now: float) -> float:
        """Return the span of the measured windows in seconds, including missing ones."""
        elapsed = now - self._samples[0][0] if self._samples else 0.0
        missing = self._windows - 1 - int(elapsed / self._length)
        if missing > 0:
            elapsed += missing * self._length
        return max(elapsed, 0.001)

    def excess(self, limit: float, now: float) -> float:
        """Return the seconds without activity until the rate is back at `limit`."""
        rate = self.measure(now)
        if rate <= limit:
            return 0.0
        return (rate - limit) / limit * self._elapsed(now) if limit > 0 else self._windows * self._length

    def is_idle(self, now: float) -> bool:
        return not self._samples or now - self._samples[-1][0] > self._windows * self._length


class TokenBucket:
    """Tokens arrive at the rate of the limit, up to the amount for `windows` windows of `seconds` each.

    A client with any tokens left may overspend and then waits until the debt is paid. No request is therefore rejected
    for its size. A new bucket is full. Owner: the event loop; the caller supplies the clock.
    """

    __slots__ = ("_at", "_span", "_tokens")

    def __init__(self, windows: int, seconds: float) -> None:
        self._span = windows * seconds
        self._tokens: float | None = None
        self._at = 0.0

    def left(self, limit: float, now: float) -> float:
        """Return the remaining tokens; a negative number is debt."""
        most = limit * self._span
        tokens = most if self._tokens is None else min(most, self._tokens + (now - self._at) * limit)
        self._tokens, self._at = tokens, now
        return tokens

    def spend(self, amount: float, limit: float, now: float) -> None:
        self._tokens = self.left(limit, now) - amount

    def wait(self, limit: float, now: float) -> float:
        debt = -self.left(limit, now)
        if debt <= 0:
            return 0.0
        return debt / limit if limit > 0 else self._span

    def is_idle(self, now: float) -> bool:
        """Return True if the bucket is full again, or nearly so."""
        return now - self._at > self._span and (self._tokens is None or self._tokens >= 0)


# Client quotas: limits per client, and throttling of clients that exceed them.
#
# As in Kafka, a client over its quota still gets its response. The response states the throttle time, during which none
# of its requests is handled. If several quotas match a client, the most specific one applies.

_PRODUCE = 0
_FORGET_ABOVE = 1000
_INT_MAX = 2**31 - 1
_CLIENT_QUOTAS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE)
Who = tuple[str | None, str | None]  # user and client id; None for a component that the quota ignores


class QuotaContext(Protocol):
    """The part of a request's context that quotas need."""

    cost: RequestCost | None

    @property
    def user(self) -> str: ...

    @property
    def client_id(self) -> str: ...

    @property
    def api(self) -> Any: ...

    @property
    def connection(self) -> Any: ...


class RequestCost:
    """Cost of a request so far; recorded only with quotas."""

    __slots__ = ("seconds", "size", "started")

    def __init__(self, size: int) -> None:
        self.size = size
        self.started = perf_counter()
        self.seconds = -1.0  # time until the request started to wait, if it did

    def pause(self) -> None:
        self.seconds = perf_counter() - self.started


class _Meter(Protocol):
    def is_idle(self, now: float) -> bool: ...


M = TypeVar("M", bound=_Meter)


class _Limits(Generic[M]):
    """One kind of quota: limits by entity, and a meter per limited client."""

    def __init__(self, key: str, new_meter: Callable[[], M]) -> None:
        self._key = key
        self._new_meter = new_meter
        self._limits: dict[Entity, float] = {}
        self._found: dict[tuple[str, str], tuple[float, M] | None] = {}
        self._meters: dict[Who, M] = {}

    def set_limits(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self._limits = {of: limits[self._key] for of, limits in quotas.items() if self._key in limits}
        self._found.clear()
        if not self._limits:
            self._meters.clear()

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, user: str, client_id: str) -> tuple[float, M] | None:
        key = (user, client_id)
        if key not in self._found:
            now = monotonic()
            if len(self._found) > _FORGET_ABOVE:
                self._found.clear()
                self._meters = {who: meter for who, meter in self._meters.items() if not meter.is_idle(now)}
            self._found[key] = self._find(user, client_id)
        return self._found[key]

    def _find(self, user: str, client_id: str) -> tuple[float, M] | None:
        for names, who in (
            ({USER: user, CLIENT_ID: client_id}, (user, client_id)),
            ({USER: user, CLIENT_ID: None}, (user, client_id)),
            ({USER: user}, (user, None)),
            ({USER: None, CLIENT_ID: client_id}, (user, client_id)),
            ({USER: None, CLIENT_ID: None}, (user, client_id)),
            ({USER: None}, (user, None)),
            ({CLIENT_ID: client_id}, (None, client_id)),
            ({CLIENT_ID: None}, (None, client_id)),
        ):
            limit = self._limits.get(entity(names))
            if limit is not None:
                meter = self._meters.get(who)
                if meter is None:
                    meter = self._meters[who] = self._new_meter()
                return limit, meter
        return None


class _Quota(_Limits[Rate]):
    def __init__(self, key: str, windows: int, seconds: int) -> None:
        super().__init__(key, lambda: Rate(windows, seconds))

    def charge(self, user: str, client_id: str, amount: float) -> float:
        """Count an amount. Return the throttle time in seconds."""
        found = self.find(user, client_id)
        if found is None:
            return 0.0
        limit, rate = found
        now = monotonic()
        rate.record(amount, now)
        return rate.excess(limit, now)


class MutationQuota:
    """Remaining quota of one request for partition mutations, i.e. created and deleted partitions (KIP-599).

    A strict quota rejects mutations while the client is over it; otherwise the client is throttled afterwards.
    """

    def __init__(self, found: tuple[float, TokenBucket] | None, *, strict: bool) -> None:
        self._found = found
        self._strict = strict
        self.throttle_ms = 0

    def charge(self, partitions: int) -> None:
        """Raises KafkaError(THROTTLING_QUOTA_EXCEEDED) if the mutation must not happen now."""
        if self._found is None:
            return
        limit, bucket = self._found
        now = monotonic()
        if self._strict and bucket.left(limit, now) < 0:
            self.throttle_ms = _milliseconds(bucket.wait(limit, now))
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        bucket.spend(partitions, limit, now)
        if not self._strict:
            self.throttle_ms = _milliseconds(bucket.wait(limit, now))


class ClientQuotas:
    """All quotas of a broker. While `active` is False there are no quotas and callers skip this class.

    Owner: the event loop.
    """

    def __init__(self, config: BrokerConfig) -> None:
        windows, seconds = config.get_int("quota.window.num"), config.get_int("quota.window.size.seconds")
        self.active = False
        self._seconds = seconds
        self._burst_seconds = (windows - 1) * seconds or seconds
        self._produce, self._fetch, self._request = (_Quota(key, windows, seconds) for key in _CLIENT_QUOTAS)
        buckets = (
            config.get_int("controller.quota.window.num"),
            config.get_int("controller.quota.window.size.seconds"),
        )
        self._mutation = _Limits(CONTROLLER_MUTATION_RATE, lambda: TokenBucket(*buckets))
        self._ips: dict[str | None, float] = {}

    def set_quotas(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self._mutation.set_limits(quotas)
        for quota in (self._produce, self._fetch, self._request):
            quota.set_limits(quotas)
        self.active = bool(self._produce or self._fetch or self._request or self._mutation)
        self._ips = {
            dict(of)[IP]: limits[CONNECTION_CREATION_RATE]
            for of, limits in quotas.items()
            if IP in dict(of) and CONNECTION_CREATION_RATE in limits
        }

    def ip_rate(self, ip: str) -> float | None:
        return self._ips.get(ip, self._ips.get(None))

    # Fetch: a throttled client gets an empty response and has to retry later

    def fetch_bytes(self, context: QuotaContext) -> int | None:
        """Return the largest response that the quota can ever allow, None without a quota."""
        found = self._fetch.find(context.user, context.client_id) if self._fetch else None
        return None if found is None else int(found[0] * self._burst_seconds)

    def throttle_fetch(self, context: QuotaContext, size: int) -> int:
        """Return the milliseconds to wait before sending `size` bytes, 0 to send now.

        A batch may exceed the quota of all windows together. A client without recent traffic gets it anyway, or it
        would never get past the batch.
        """
        found = self._fetch.find(context.user, context.client_id) if self._fetch else None
        if found is None:
            return 0
        limit, rate = found
        now = monotonic()
        was_idle = rate.measure(now) <= 0
        rate.record(size, now)
        wait = _milliseconds(rate.excess(limit, now))
        if was_idle or not wait:
            return 0
        rate.record(-size, now)
        return wait

    def mutations(self, context: QuotaContext, *, strict: bool) -> MutationQuota:
        found = self._mutation.find(context.user, context.client_id) if self._mutation else None
        return MutationQuota(found, strict=strict)

    # All requests

    def charge(self, response: Response | None, context: QuotaContext) -> None:
        """Charge a finished request. A client over its quota is muted, and the response states for how long."""
        cost = context.cost
        if cost is None or not self.active:
            return
        user, client_id = context.user, context.client_id
        wait: int = getattr(response, "throttle_time_ms", 0)
        if context.api.key == _PRODUCE and self._produce:
            wait = max(wait, _milliseconds(self._produce.charge(user, client_id, cost.size)))
        if self._request:
            seconds = cost.seconds if cost.seconds >= 0 else perf_counter() - cost.started
            # Never longer than a window: a slow broker must not lock clients out.
            excess = min(self._request.charge(user, client_id, seconds * 100), self._seconds)
            wait = max(wait, _milliseconds(excess))
        if wait:
            if response is not None and "throttle_time_ms" in type(response).fields:
                response.throttle_time_ms = wait  # type: ignore[attr-defined]
            context.connection.mute(wait / 1000)


def _milliseconds(seconds: float) -> int:
    return min(round(seconds * 1000), _INT_MAX)
