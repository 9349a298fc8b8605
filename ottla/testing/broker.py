"""The embedded broker: an event loop in its own thread, driven from the test's thread."""

from __future__ import annotations

import asyncio
import tempfile
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import uvloop

from ottla.broker.faults import ANY_API, Fault, Faults, SeenRequest
from ottla.broker.lifecycle.server import Server
from ottla.log.cleaner.task import CleanerStatus
from ottla.metadata.configs.topic_configs import SCHEMA_REGISTRY_URL
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import API_NAMES
from ottla.protocol.records import Record, build_batch, read_records
from ottla.security.acls import Acl
from ottla.testing.checks import assert_records, check_setting, known_name
from ottla.testing.ports import ReservedPorts
from ottla.testing.security import ADMIN, BrokerSecurity

if TYPE_CHECKING:
    from ottla.http.background import InBackground

T = TypeVar("T")

# Tests should not wait: groups do not wait for more members, and internal topics are small.
DEFAULTS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "log.cleaner.dedupe.buffer.size": "1048577",
}


class Broker:
    """A broker for tests: start it with `with`, connect to `bootstrap_servers`.

    `config` takes the keys of server.properties; clients use the first of its `listeners`. `data` keeps the data in a
    directory of yours, for example for a second broker. By default the data is removed when the broker stops.

    `security` is SASL_SSL, SASL_PLAINTEXT or SSL. `users` maps names to passwords, besides the user `admin`. With
    `acls` (made by `ottla.testing.acl`; an empty list is enough) anything not explicitly allowed is denied.

    `registry` adds a schema registry at `schema_registry_url`; a mapping contains its settings, with the names of
    schema-registry.properties. `seed` makes faults with a probability strike the same requests in every run.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        data: str | Path | None = None,
        port: int = 0,
        security: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[Acl] | None = None,
        registry: bool | Mapping[str, str] = False,
        seed: int | None = None,
    ) -> None:
        if security is None and (users is not None or acls is not None):
            raise ValueError("users and acls need security: SASL_SSL, SASL_PLAINTEXT or SSL")
        self._security = None if security is None else BrokerSecurity(security, users, acls)
        self._config = dict(config or {})
        self._seed = seed
        for name in self._config:
            check_setting(name)
        self._data = None if data is None else Path(data)
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._reserved = ReservedPorts(0 if port else 1)  # stays the same after a restart
        self._port = port or self._reserved.numbers[0]
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: Server | None = None
        self._registry_settings = {} if registry is True else registry
        self._registry_port = ReservedPorts(0 if registry is False else 1)  # stays the same after a restart
        self._registry: InBackground | None = None

    # Lifecycle

    def start(self) -> Self:
        if self._data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="ottla-")
            self._data = Path(self._temporary.name)
        overrides = {
            **DEFAULTS,
            "log.dirs": str(self._data),
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            **(self._security.settings(self._data, self._port) if self._security else {}),
            **self._registry_url(),
            **self._config,
        }
        started: list[BaseException | None] = []
        ready = threading.Event()

        def run() -> None:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main(overrides, started, ready))

        self._thread = threading.Thread(target=run, name="ottla-broker", daemon=True)
        self._thread.start()
        ready.wait()
        if started[0] is not None:
            self._thread.join()
            self._clean_up()
            raise started[0]
        if self._security is not None:
            self._security.store_acls(self.bootstrap_servers)
        if self._registry_settings is not False:
            try:
                self._start_registry(self._registry_settings)
            except BaseException:
                self.stop()
                raise
        return self

    def _registry_url(self) -> dict[str, str]:
        """Settings for topics with schema validation."""
        if self._registry_settings is False:
            return {}
        return {SCHEMA_REGISTRY_URL: f"http://127.0.0.1:{self._registry_port.numbers[0]}"}

    def _start_registry(self, settings: Mapping[str, str]) -> None:
        from ottla.http.background import InBackground
        from ottla.registry.server import RegistryServer
        from ottla.registry.settings import RegistrySettings

        client = {f"kafkastore.{name}": value for name, value in self.client_properties().items()}
        wanted = RegistrySettings.from_properties(
            {"listeners": f"http://127.0.0.1:{self._registry_port.numbers[0]}", **client, **settings}
        )
        self._registry = InBackground(lambda: RegistryServer(wanted), "schema-registry").start()

    async def _main(
        self, overrides: dict[str, str], started: list[BaseException | None], ready: threading.Event
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        try:
            self._server = Server.from_options(None, overrides)
            if self._security is not None:
                self._server.initial_users = self._security.initial_users()
            await self._server.start()
        except BaseException as error:
            started.append(error)
            ready.set()
            return
        started.append(None)
        self._port = self._server.port
        ready.set()
        await self._stopping.wait()
        await self._server.stop()

    def stop(self) -> None:
        if self._registry is not None:
            self._registry.stop()
            self._registry = None
        if self._thread is None or self._loop is None:
            return
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join()
        self._thread = None
        self._clean_up()

    def restart(self, meanwhile: Callable[[Path], object] | None = None) -> None:
        """Stop cleanly and start again with the same data and port. `meanwhile` may change the data."""
        keep, self._temporary = self._temporary, None
        self.stop()
        if meanwhile is not None:
            meanwhile(self.data)
        self._temporary = keep
        self.start()

    def _clean_up(self) -> None:
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None
            self._data = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # Properties

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def has_registry(self) -> bool:
        return self._registry_settings is not False

    @property
    def schema_registry_url(self) -> str:
        assert self._registry is not None, "there is no registry: use Broker(registry=True)"
        return self._registry.url

    @property
    def metrics_url(self) -> str:
        url = self._running().metrics_url
        assert url is not None, "the broker shows no metrics: use Broker(config={'metrics.port': '0'})"
        return url

    @property
    def data(self) -> Path:
        assert self._data is not None, "the broker is not running"
        return self._data

    def client_config(self, user: str | None = None) -> dict[str, str]:
        """Return confluent-kafka settings for connecting as `admin` or another user."""
        return {"bootstrap.servers": self.bootstrap_servers, **self._security_of(user)}

    def client_properties(self, user: str | None = None) -> dict[str, str]:
        """Return the same settings with the names of Java clients, for their tools."""
        return {"bootstrap.servers": self.bootstrap_servers, **self._security_of(user, java=True)}

    def _security_of(self, user: str | None, *, java: bool = False) -> dict[str, str]:
        if self._security is None:
            if user is not None:
                raise ValueError("the broker has no users: give it security and users")
            return {}
        named = ADMIN if user is None else user
        return self._security.client_properties(named) if java else self._security.client_config(named)

    # Preparing and checking without a client

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        broker = self._running().broker
        self._run(broker.topic_admin.create_topic(name, partitions=partitions, configs=dict(config or {})))

    def delete_topic(self, name: str) -> None:
        self._run(self._running().broker.delete_topic(name))

    def partition_count(self, topic: str) -> int:
        return len(self._running().broker.image.topics[topic].partitions)

    def topic_id(self, name: str) -> bytes:
        return self._running().broker.image.topics[name].topic_id

    def produce(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int = 0,
        timestamp: int | None = None,
    ) -> int:
        broker = self._running().broker

        async def append() -> int:
            now = broker.now_ms()
            record = Record(0, now if timestamp is None else timestamp, key, value, tuple(headers))
            return broker.replicas.leader(topic, partition).append(build_batch([record]), now).first_offset

        return self._run(append())

    def records(self, topic: str, partition: int = 0) -> list[Record]:
        """Return everything that a consumer could read from the start of a partition."""
        broker = self._running().broker

        async def read() -> list[Record]:
            held = broker.replicas.leader(topic, partition)
            offset, found = held.log.log_start_offset, []
            while offset < held.high_watermark:
                region = held.log.read(offset, 1 << 20, upto=held.high_watermark, min_one=True)
                for header, batch in read_records(region.read()):
                    found += [record for record in batch if record.offset >= offset and not header.is_control]
                    end = header.next_offset
                offset = end
            return found

        return self._run(read())

    def add_user(self, name: str, password: str) -> None:
        """Add a user to a broker with `security` of the kind SASL."""
        self._secured().add_user(self.bootstrap_servers, name, password)

    def add_acls(self, *acls: Acl) -> None:
        """Add ACLs, made by `ottla.testing.acl`, to a broker that has some."""
        self._secured().add_acls(self.bootstrap_servers, acls)

    def _secured(self) -> BrokerSecurity:
        if self._security is None:
            raise ValueError("The broker has no users: start it with security.")
        return self._security

    def ensure_internal_topic(self, name: str) -> None:
        self._run(self._running().broker.ensure_internal_topic(name))

    def waiting_fetches(self, topic: str, partition: int = 0) -> int:
        """Return the number of fetch requests waiting for data of a partition."""
        broker = self._running().broker

        async def count() -> int:
            return broker.replicas.leader(topic, partition).waiting_fetches

        return self._run(count())

    def cleaner_status(self) -> CleanerStatus:
        cleaner = self._running().broker.cleaner
        assert cleaner is not None
        return cleaner.status

    # Faults

    def fail(self, api: str, error: ErrorCode | str, times: int | None = 1, **which: Any) -> None:
        """Fail the next `times` requests of an API ("Produce", "Fetch", …) with an error code, without executing them.

        `which` narrows the requests down: `topic`, `partition`, `client_id`, `skip` (let the first ones pass) and
        `probability`. `times=None` is for all requests, `api="*"` for all APIs.
        """
        code = (
            ErrorCode[known_name(error, ErrorCode.__members__, "error")] if isinstance(error, str) else error
        )
        self.inject(Fault(api, times, error=code, **which))

    def delay(self, api: str, seconds: float, times: int | None = 1, **which: Any) -> None:
        """Delay the next `times` requests of an API; `which` as for `fail`."""
        self.inject(Fault(api, times, delay=seconds, **which))

    def drop(self, api: str, times: int | None = 1, *, after: bool = False, **which: Any) -> None:
        """Close the connection on the next `times` requests of an API; `which` as for `fail`.

        With `after` the request is executed and only its response is lost, which makes producers send twice.
        """
        self.inject(Fault(api, times, drop=True, after=after, **which))

    def inject(self, fault: Fault) -> None:
        if fault.api != ANY_API:
            known_name(fault.api, API_NAMES.values(), "API")
        self._with_faults(lambda faults: faults.add(fault))

    def clear_faults(self) -> None:
        self._with_faults(lambda faults: faults.waiting.clear())

    def faults(self) -> list[Fault]:
        """Return the faults that still wait for requests."""
        return self._with_faults(lambda faults: [replace(fault) for fault in faults.waiting])

    # Observing

    def observe(self) -> None:
        """Remember requests from now on. The first fault does so too."""
        self._with_faults(lambda faults: None)

    def requests(self, api: str | None = None, client_id: str | None = None) -> list[SeenRequest]:
        """Return the last 10,000 requests since `observe` or the first fault, oldest first."""
        if api is not None:
            known_name(api, API_NAMES.values(), "API")
        return self._with_faults(
            lambda faults: [
                seen
                for seen in faults.seen
                if api in (None, seen.api) and client_id in (None, seen.client_id)
            ]
        )

    def assert_records(self, topic: str, expected: Sequence[Any], partition: int | None = None) -> None:
        """Raise AssertionError with a readable difference unless the topic has exactly these records, in order.

        Each expected record is a value, or a pair of key and value; texts are compared as UTF-8. Without a partition,
        the partitions of the topic are read one after another.
        """
        assert_records(self, topic, expected, partition)

    def _with_faults(self, use: Callable[[Faults], T]) -> T:
        broker = self._running().broker

        async def run() -> T:
            if broker.faults is None:
                broker.faults = Faults(broker.image, self._seed)
            return use(broker.faults)

        return self._run(run())

    # Internals

    def _running(self) -> Server:
        if self._server is None or self._thread is None:
            raise RuntimeError("the broker is not running: use `with Broker() as broker:` or start()")
        return self._server

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()
