"""How every command reaches a broker: confluent-kafka, configured and waited for in one place."""

from __future__ import annotations

import logging
import re
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.cli.errors import BrokerUnreachable, JobError, from_kafka

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer, ShareConsumer
    from confluent_kafka.admin import AdminClient

    from ottla.cli.brokers import Brokers

T = TypeVar("T")

DEFAULT_BOOTSTRAP_SERVER = "localhost:9092"
DEFAULT_TIMEOUT = 10.0

# librdkafka says "all brokers down" as soon as the first address of a name refuses (::1 before 127.0.0.1),
# and goes on trying; only after this many seconds is it believed.
_GRACE = 1.5

# A coordinator that is being created or loaded answers with these; the client library does not retry them.
_COORDINATOR_ERRORS = frozenset(
    {"NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}
)
_COORDINATOR_BACKOFF = 0.1


def split_servers(text: str) -> str:
    """`a:9092; b` → `a:9092,b:9092`: lists are separated by , or ; and a port may be left out."""
    servers = [server for server in re.split(r"[,;\s]+", text) if server]
    return ",".join(
        server if re.search(r"[^:]:\d+$|\]:\d+$", server) else f"{server}:9092" for server in servers
    )


class Client:
    """One cluster to talk to. Connections are opened when first needed."""

    def __init__(
        self,
        bootstrap_servers: str = DEFAULT_BOOTSTRAP_SERVER,
        properties: Mapping[str, str] | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        ignore_unknown: bool = False,
    ) -> None:
        """`ignore_unknown`: a property that the client does not have is told and left out, as by Kafka's clients."""
        self.bootstrap_servers = split_servers(bootstrap_servers)
        self.properties = dict(properties or {})
        self.timeout = timeout
        self._ignore_unknown = ignore_unknown
        self._ignored: set[str] = set()
        self._admin: AdminClient | None = None
        self._failure: str | None = None
        self._all_down_since: float | None = None
        self._denied: str | None = None
        self._reached = False
        self._brokers: Brokers | None = None

    # -- clients ---------------------------------------------------------------------------------------

    def config(self, extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
        # librdkafka prints its log on stderr unless it is given a logger.
        logger = logging.getLogger("ottla.cli.librdkafka")
        if not logger.handlers:
            logger.addHandler(logging.NullHandler())
            logger.propagate = False
        return {
            "client.id": "ottla-cli",
            **self.properties,
            "bootstrap.servers": self.bootstrap_servers,
            **(extra or {}),
            "logger": logger,
        }

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            self._admin = self._open(AdminClient, self.config({"error_cb": self._on_error}))
        return self._admin

    @property
    def brokers(self) -> Brokers:
        """Plain connections, beside confluent-kafka's."""
        if self._brokers is None:
            from ottla.cli.brokers import Brokers

            self._brokers = Brokers(self)
        return self._brokers

    def producer(self, extra: Mapping[str, Any]) -> Producer:
        from confluent_kafka import Producer

        return self._open(Producer, self.config(extra))

    def consumer(self, extra: Mapping[str, Any]) -> Consumer:
        from confluent_kafka import Consumer

        return self._open(Consumer, self.config(extra))

    def share_consumer(self, extra: Mapping[str, Any]) -> ShareConsumer:
        try:
            from confluent_kafka import ShareConsumer
        except ImportError:
            raise JobError("Members of share groups need confluent-kafka 2.16 or newer.") from None
        return self._open(ShareConsumer, self.config(extra))

    def _open(self, kind: Callable[[dict[str, Any]], T], config: dict[str, Any]) -> T:
        from confluent_kafka import KafkaException

        while True:
            try:
                return kind(config)
            except KafkaException as error:
                reason = error.args[0].str()
            unknown = re.match(r'No such configuration property: "(.+)"', reason)
            if unknown is None or not self._ignore_unknown or unknown[1] not in config:
                raise JobError(f"The client configuration is not valid: {reason.rstrip('.')}.")
            del config[unknown[1]]
            self._say_ignored(unknown[1])

    def _say_ignored(self, name: str) -> None:
        if name not in self._ignored:
            self._ignored.add(name)
            moment = time.strftime("%Y-%m-%d %H:%M:%S")
            print(
                f"[{moment},000] WARN These configurations '[{name}]' were supplied but are not used yet. "
                "(org.apache.kafka.common.config.AbstractConfig)",
                file=sys.stderr,
            )

    # -- waiting ---------------------------------------------------------------------------------------

    def ensure_reachable(self) -> None:
        """Fail early and clearly, before a call that would sit out its timeout."""
        if not self._reached:
            self.result(self.admin.describe_cluster(request_timeout=self.timeout), "The cluster")

    def result(self, future: Future[T], subject: str = "It") -> T:
        """The result of an admin call; a failure as a sentence about `subject`."""
        from confluent_kafka import KafkaException

        while True:
            try:
                value = future.result(timeout=0.05)
            except TimeoutError:
                self.admin.poll(0)
                self._check_reachable()
            except KafkaException as failure:
                error: KafkaError = failure.args[0]
                if error.name() in ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN"):
                    self.admin.poll(0)
                    raise self.unreachable() from None
                raise from_kafka(error, subject) from None
            else:
                self._reached = True
                return value

    def result_from_coordinator(self, call: Callable[[], Future[T]], subject: str = "It") -> T:
        """As `result`, asking again while the group coordinator is still loading."""
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                return self.result(call(), subject)
            except JobError as error:
                if error.code not in _COORDINATOR_ERRORS or time.monotonic() > deadline:
                    raise
            time.sleep(_COORDINATOR_BACKOFF)

    def _on_error(self, error: KafkaError) -> None:
        name = error.name()
        if name == "_ALL_BROKERS_DOWN":
            self._all_down_since = self._all_down_since or time.monotonic()
        elif name in ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED"):
            self._denied = error.str()
        else:
            self._failure = error.str()

    def _check_reachable(self) -> None:
        if self._denied is not None:
            raise self.unreachable()
        down = self._all_down_since
        if down is not None and not self._reached and time.monotonic() - down > _GRACE:
            raise self.unreachable()

    def unreachable(self) -> BrokerUnreachable:
        if self._denied is not None:
            reason = self._denied.split(": ", 1)[-1].rstrip(".")
            return BrokerUnreachable(
                f"The broker at {self.bootstrap_servers} refused the credentials: {reason}."
            )
        if self._reached:
            return BrokerUnreachable(
                f"The broker at {self.bootstrap_servers} did not answer within {self.timeout:g} s."
            )
        failure = self._failure or ""
        if "resolve" in failure:
            return BrokerUnreachable(f"Cannot reach a broker at {self.bootstrap_servers}: no such host name.")
        if "SSL" in failure:
            reason = failure.split(": ", 1)[-1].rstrip(".")
            return BrokerUnreachable(f"Cannot reach a broker at {self.bootstrap_servers} over TLS: {reason}.")
        return BrokerUnreachable(
            f"Cannot reach a broker at {self.bootstrap_servers}: is it running? Start one with `ottla start`."
        )
