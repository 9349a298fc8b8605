"""The broker process: open disks, load metadata and logs, register, serve, shut down."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path

from ottla.broker.broker import Broker
from ottla.broker.configuration import refused_listener
from ottla.broker.lifecycle import server_log
from ottla.broker.lifecycle.cluster_member import ClusterMember
from ottla.broker.lifecycle.embedded_metadata import (
    METADATA_FILE,
    move_to_zookeeper,
    remove_strays,
    take_over_topics,
)
from ottla.broker.lifecycle.failed_disks import lost_logs, out_of_reach
from ottla.broker.lifecycle.housekeeping import Housekeeping, log_cleaner
from ottla.broker.lifecycle.readiness import readiness
from ottla.broker.lifecycle.server_log import KAFKA_SERVER
from ottla.broker.metrics.broker_metrics import (
    PENDING_CONTROLLED_SHUTDOWN,
    RUNNING,
    SHUTTING_DOWN,
    STARTING,
    BrokerMetrics,
    metrics_of_start,
)
from ottla.broker.metrics.helper_processes import CountAudit, OtlpExport
from ottla.broker.network.connection_limits import ConnectionLimits
from ottla.broker.network.listener import Listener
from ottla.broker.security.authorization import authorizer_of
from ottla.broker.security.certificate_reload import TlsListeners
from ottla.broker.security.inter_broker import inter_broker_security
from ottla.broker.security.sasl_settings import sasl_settings
from ottla.broker.security.scram_users import InitialUsers, MetricsLogin, store_initial_users
from ottla.cluster.image.change_notifications import remove_old_notifications
from ottla.cluster.image.image_feed import ImageFeed, PartitionKey
from ottla.cluster.log_config import log_config
from ottla.cluster.membership import generate_broker_id, join_cluster
from ottla.cluster.peers import PeerDialer
from ottla.cluster.producer_ids import ProducerIds
from ottla.cluster.replicas import Replicas
from ottla.cluster.topics.topic_admin import TopicAdmin
from ottla.log.config import LogConfig, LogDirectoryError, UnusableDirectoryError
from ottla.log.files import descriptors
from ottla.log.future_log import settle_copies
from ottla.log.log_directory import LogDirectory
from ottla.log.remote.storage import RemoteStorage, RemoteStorageError, open_storage
from ottla.log.segments.open_files import active_files, sealed_files
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.configs.broker_config import BrokerConfig, ConfigError
from ottla.metadata.credentials import load_salt_secret
from ottla.metadata.dynamic_configs.dynamic_passwords import encode_with_new_secret
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.metadata.stores.store import NodeStore, StoreError
from ottla.monitoring.metrics.endpoint import MetricsEndpoint, in_slices
from ottla.security.authorizer import Authorizer

logger = logging.getLogger(__name__)

_LOOK_FOR_CERTIFICATES_MS = 3000
_WITHOUT = "%s. The broker starts without it, and the partitions in it are offline."


class StartupError(Exception):
    """Raised if the broker cannot start; the message is one sentence for the operator."""


class PortTaken(StartupError):
    """The port is in use. The caller knows how to choose another port."""


class Server:
    """One broker. Call `start` and `stop` once each, on the event loop that owns it."""

    def __init__(self, config: BrokerConfig) -> None:
        self.config = config
        self.initial_users: InitialUsers = {}  # stored before the first listener opens
        self.broker: Broker
        self._listeners: list[Listener] = []
        self._directories: list[LogDirectory] = []
        self._store: NodeStore | None = None
        self._feed: ImageFeed | None = None
        self._member: ClusterMember | None = None
        self._housekeeping: Housekeeping | None = None
        self._failed: asyncio.Future[str] | None = None
        self._tls: TlsListeners
        self._authorizer: Authorizer | None = None
        self._endpoint: MetricsEndpoint | None = None
        self._state = STARTING

    @classmethod
    def from_options(cls, config_file: Path | None, overrides: Mapping[str, str]) -> Server:
        try:
            if config_file is None:
                return cls(BrokerConfig.embedded(overrides))
            return cls(BrokerConfig.load(config_file, overrides))
        except ConfigError as error:
            raise StartupError(str(error)) from None

    @property
    def listen_addresses(self) -> list[str]:
        return [f"{listener.host}:{listener.port}" for listener in self._listeners]

    @property
    def port(self) -> int:
        return self._listeners[0].port

    @property
    def shutdown_seconds(self) -> float:
        """How long `stop` may take before the process should end without it."""
        return self.config.get_int("ottla.shutdown.timeout.ms") / 1000

    @property
    def metrics_url(self) -> str | None:
        return None if self._endpoint is None else self._endpoint.url

    @property
    def data_dirs(self) -> list[str]:
        return [str(directory.path) for directory in self._directories]

    @property
    def _online_dirs(self) -> list[str]:
        return [str(directory.path) for directory in self._directories if directory.online]

    async def start(self) -> None:
        try:
            await self._start()
        except BaseException as error:
            await self._abandon()
            if isinstance(error, LogDirectoryError | StoreError | ConfigError):
                raise StartupError(str(error)) from None
            raise

    async def _start(self) -> None:
        _take_descriptors()
        config = self.config
        if config.broker_id >= 0:
            self._introduce()
        for warning in config.warnings:
            logger.warning("%s", warning)
        limits = ConnectionLimits(config)
        self._authorizer = authorizer_of(config)
        if self._is_first_start and (refused := refused_listener(config)) is not None:
            raise StartupError(refused)
        for endpoint in config.listeners:
            self._bind(endpoint.name, endpoint.host, endpoint.port, limits)
        await self._open_metrics()
        self._failed = asyncio.get_running_loop().create_future()
        await asyncio.to_thread(self._open_directories)
        self._keep_broker_id()
        KAFKA_SERVER.info("%s starting, with the data in %s", self._name, ", ".join(self.data_dirs))
        store = self._store = self._metadata_store()
        await self._open_store(store)
        feed = await self._load_metadata(store)
        self._tls = await asyncio.to_thread(self._secure_listeners)
        await self._prepare_logins(store, feed.image)
        remote_storage = self._remote_storage(feed.image)
        lost = await self._load_logs(store, feed.image)
        broker = self.broker = self._make_broker(store, feed, lost)
        broker.count_audit = CountAudit.of(config, {each.name: each.port for each in self._listeners})
        limits.ip_rate = broker.quotas.ip_rate
        broker.otlp_export = OtlpExport.of(config, self._metric_lines)
        if self._endpoint is not None or broker.otlp_export is not None:
            broker.metrics = BrokerMetrics(broker, self._listeners)
            broker.metrics.start()
        await broker.start()
        await broker.member.prepare()
        self._claim_new_directories()
        await broker.member.start()
        if not config.zookeeper_connect:
            await broker.coordinators_loaded()  # no other broker could serve clients in the meantime
        if remote_storage is not None:
            broker.start_remote_log(remote_storage)
        self._housekeeping = Housekeeping(broker)
        self._housekeeping.start()
        self._housekeeping.add(_LOOK_FOR_CERTIFICATES_MS, self._tls.reload_changed)
        feed.configs.on_broker_configs.append(self._tls.settings_changed)
        broker.cleaner = log_cleaner(broker)
        broker.replicas.log_dir_moves.is_busy = broker.cleaner.status.running.__contains__
        broker.cleaner.start()
        for listener in self._listeners:
            listener.tls = self._tls.of.get(listener.name)
            listener.open(broker.dispatcher)
        if broker.count_audit is not None:
            broker.count_audit.start()
        self._enter(RUNNING)
        if broker.otlp_export is not None:
            broker.otlp_export.start(broker.node_id, broker.cluster_id)
        KAFKA_SERVER.info("%s Listening on %s", self._name, ", ".join(self.listen_addresses))
        KAFKA_SERVER.info("%s started", self._name)

    def _enter(self, state: int) -> None:
        self._state = state
        if self.broker.metrics is not None:
            self.broker.metrics.state = state

    @property
    def _name(self) -> str:
        return f"[KafkaServer id={self.config.broker_id}]"

    @property
    def _is_first_start(self) -> bool:
        """Return True for the first start of a standalone broker, which has no dynamic settings yet."""
        return not self.config.zookeeper_connect and not (self.config.log_dirs[0] / METADATA_FILE).exists()

    def _introduce(self) -> None:
        server_log.set_broker_id(self.config.broker_id)

    # Disks

    def _open_directories(self) -> None:
        """Lock and open every directory. The broker starts without failed ones if possible."""
        failures: list[UnusableDirectoryError] = []
        for path in self.config.log_dirs:
            try:
                self._directories.append(LogDirectory.open(path))
            except UnusableDirectoryError as error:
                failures.append(error)
                self._directories.append(LogDirectory.unusable(path))
        if len(failures) == len(self._directories):
            raise failures[0]
        if not self._directories[0].online and not self.config.zookeeper_connect:
            raise StartupError(f"{failures[0]}; the first of log.dirs holds the metadata of the broker.")
        for failure in failures:
            logger.error(_WITHOUT, failure)

    def _do_without(self, directory: LogDirectory, reason: str) -> None:
        """Start without a failed directory, unless it holds the metadata or is the last one."""
        directory.fail(reason)
        is_store = directory is self._directories[0] and not self.config.zookeeper_connect
        if is_store or not any(each.online for each in self._directories):
            raise StartupError(f"{reason}.")
        logger.error(_WITHOUT, reason)

    def _keep_broker_id(self) -> None:
        """Without a configured broker.id, use the id stored in the directories, as Kafka does."""
        is_given = self.config.is_given("broker.id") and self.config.broker_id >= 0
        known = [each.meta.broker_id for each in self._directories if each.meta is not None]
        broker_id = next((each for each in known if each is not None), None)
        for directory in self._directories:
            if directory.lacks_identity and self.config.zookeeper_connect and not is_given:
                # With another id the broker would treat all logs as foreign and delete them.
                raise StartupError(
                    f"{directory.path} was used by a broker, and its meta.properties is missing: restore it, or set "
                    "broker.id to the id that the broker had"
                )
        if broker_id is not None and not is_given:
            self.config.set_broker_id(broker_id)
            self._introduce()

    def _claim_new_directories(self) -> None:
        """Claim new directories only after determining lost logs, so that an earlier crash cannot hide a loss."""
        for directory in self._directories:
            try:
                directory.claim(self.broker.node_id, self.broker.cluster_id)
                directory.note_siblings(self.data_dirs)
            except OSError as error:
                self.broker.replicas.directory_failed(directory, error)

    # Metadata

    def _metadata_store(self) -> NodeStore:
        """Return ZooKeeper, or for a standalone broker a file in its first log directory."""
        config = self.config
        if config.zookeeper_connect is None:
            return EmbeddedStore(Path(self._directories[0].path) / METADATA_FILE)
        # A standalone broker does not need kazoo.
        from ottla.broker.security.zookeeper_access import zookeeper_store

        return zookeeper_store(config, config.zookeeper_connect)

    async def _open_store(self, store: NodeStore) -> None:
        connect = self.config.zookeeper_connect
        try:
            await store.open()
        except StoreError as error:
            if connect is None:
                raise
            raise StartupError(
                f"{error} Start it first (zookeeper-server-start config/zookeeper.properties), correct "
                "zookeeper.connect, or remove it to run one broker without ZooKeeper."
            ) from None
        if connect is not None:
            await move_to_zookeeper(self._online_dirs, store, connect)

    async def _load_metadata(self, store: NodeStore) -> ImageFeed:
        config = self.config
        found_id = None
        if not config.zookeeper_connect:
            # Never in a cluster: a broker with data that finds an empty ensemble is connected to the wrong one.
            found_id = next(
                (each.meta.cluster_id for each in self._directories if each.meta is not None), None
            )
        cluster_id = await join_cluster(store, found_id)
        await store_initial_users(store, self.initial_users)
        if config.broker_id < 0:
            config.set_broker_id(await generate_broker_id(store, config))
            self._introduce()
        await encode_with_new_secret(store, config)
        feed = self._feed = ImageFeed(
            store, ClusterImage(cluster_id), config, config.broker_id, self._authorizer
        )
        await store.sync()  # a lagging server would make new topics look deleted
        await feed.load()
        if not config.zookeeper_connect:
            await remove_old_notifications(store)
        return feed

    def _secure_listeners(self) -> TlsListeners:
        """Load TLS after the dynamic settings are known. Raises ConfigError."""
        if (refused := refused_listener(self.config)) is not None:
            raise StartupError(refused)
        return TlsListeners(self.config)

    async def _prepare_logins(self, store: NodeStore, image: ClusterImage) -> None:
        """Prepare logins before registration, because keys and keytabs may be unavailable. Raises ConfigError."""
        protocols = {listener.name: listener.security_protocol for listener in self.config.listeners}
        with_logins = [each for each in self._listeners if protocols[each.name].startswith("SASL_")]
        if with_logins:
            salt_secret = await load_salt_secret(store)
            for listener in with_logins:
                listener.sasl = sasl_settings(self.config, listener.name, image, salt_secret)
                await listener.sasl.open()

    def _remote_storage(self, image: ClusterImage) -> RemoteStorage | None:
        """Open the store of tiered topics, before their logs are opened."""
        if not self.config.get_bool("remote.log.storage.system.enable"):
            tiered = [
                topic.name
                for topic in image.topics.values()
                if topic.configs.get("remote.storage.enable", "").strip().lower() == "true"
            ]
            if tiered:
                raise StartupError(
                    f"Topic {tiered[0]} has records in remote storage only, and remote.log.storage.system.enable is "
                    "false: set it to true. You have to delete all topics with the property "
                    "remote.storage.enable=true before disabling tiered storage cluster-wide."
                )
            return None
        uri = self.config.get_str("ottla.remote.storage.uri")
        if not uri:
            raise StartupError(
                "remote.log.storage.system.enable=true needs ottla.remote.storage.uri: set it to file:///DIRECTORY "
                "or s3://BUCKET/PREFIX."
            )
        try:
            return open_storage(uri)
        except RemoteStorageError as error:
            raise StartupError(f"ottla.remote.storage.uri: {error}.") from None

    # Logs

    async def _load_logs(self, store: NodeStore, image: ClusterImage) -> list[PartitionKey]:
        """Open the logs and align them with the metadata. Return partitions with missing logs."""
        broker_id = self.config.broker_id
        known = [directory for directory in self._directories if directory.meta is not None]
        in_cluster = self.config.zookeeper_connect is not None
        disks_changed = len(known) < len(self._directories) or any(map(self._has_lost_siblings, known))
        for directory in known:
            try:
                directory.claim(broker_id, image.cluster_id)
            except OSError as error:
                self._do_without(directory, f"{directory.path} cannot be written: {error.strerror or error}")
        await asyncio.to_thread(self._open_logs, image)
        if in_cluster:
            await asyncio.to_thread(remove_strays, known, image, broker_id)
        else:
            await take_over_topics(store, image, self.config, self._directories)
        return lost_logs(self._directories, image, broker_id, disks_changed=disks_changed)

    def _has_lost_siblings(self, directory: LogDirectory) -> bool:
        """Return True if the broker used another directory at the last start and lacks it now.

        Data of a standalone broker is moved and copied as a whole, so its directories may have new names.
        """
        if self.config.zookeeper_connect is None:
            return len(directory.siblings) > len(self._directories)
        return not directory.siblings <= set(self.data_dirs)

    def _open_logs(self, image: ClusterImage) -> None:
        def settings(topic: str) -> LogConfig:
            known = image.topics.get(topic)
            return log_config(self.config, known.configs if known else {})

        for directory in self._directories:
            try:
                directory.load_logs(settings)
            except OSError as error:
                self._do_without(directory, f"{directory.path} cannot be read: {error.strerror or error}")
        settle_copies(self._directories)

    def _make_broker(self, store: NodeStore, feed: ImageFeed, lost: list[PartitionKey]) -> Broker:
        config, image = self.config, feed.image
        dialer = PeerDialer(config, image, inter_broker_security(config, self._tls.of))
        replicas = Replicas(config, image, self._directories, dialer)
        replicas.on_all_failed = self._fail
        if lacking := out_of_reach(self._directories, image, config.broker_id):
            logger.error("%d partitions are offline, because their logs cannot be used", len(lacking))
            replicas.keep_offline(lacking)
        topic_admin = TopicAdmin(store, image, config, config.broker_id, feed)
        topic_admin.check_broker_configs = self._tls.check
        producer_ids = ProducerIds(store, config.broker_id)
        broker = Broker(config, store, image, replicas, topic_admin, producer_ids, dialer, self._authorizer)
        endpoints = config.advertised_listeners({each.name: each.port for each in self._listeners})
        broker.member = self._member = ClusterMember(broker, store, feed, endpoints, lost)
        return broker

    # Shutdown

    def _fail(self, sentence: str) -> None:
        assert self._failed is not None
        if not self._failed.done():
            self._failed.set_result(sentence)

    async def failed(self) -> str:
        """Wait until the broker cannot continue. Return a message for the operator."""
        assert self._failed is not None, "the broker was not started"
        return await asyncio.shield(self._failed)

    async def stop(self) -> None:
        """Stop accepting requests, flush all data and mark the shutdown as clean."""
        KAFKA_SERVER.info("%s shutting down", self._name)
        if self.broker.count_audit is not None:
            await self.broker.count_audit.finish()
        member = self.broker.member
        hands_over = bool(member.others)
        self._enter(PENDING_CONTROLLED_SHUTDOWN)
        if hands_over:
            await member.leave()  # clients can still ask this broker for the next leaders
        for listener in self._listeners:
            listener.close()
        self._enter(SHUTTING_DOWN)
        if not hands_over:
            await member.leave()
        await self._close_metrics()
        if self._housekeeping is not None:
            await self._housekeeping.stop()
        if self.broker.cleaner is not None:
            await self.broker.cleaner.stop()
        if self.broker.remote_log is not None:
            await self.broker.remote_log.close()
        self.broker.close()
        await member.stop()
        await self.broker.replicas.close()
        for directory in self._directories:
            await asyncio.to_thread(directory.close)
        if self._store is not None:
            await self._store.close()
        KAFKA_SERVER.info("%s shut down completed", self._name)

    async def _abandon(self) -> None:
        for listener in self._listeners:
            listener.close()
        await self._close_metrics()
        if self._member is not None:
            await self._member.abandon()
            if self.broker.remote_log is not None:
                await self.broker.remote_log.close()
            self.broker.close()
        if self._feed is not None:
            await self._feed.stop()
        for directory in self._directories:
            directory.abandon()
        if self._store is not None:
            await self._store.close()

    # Metrics

    async def _open_metrics(self) -> None:
        host, port = self.config.get_str("metrics.host"), self.config.get_int("metrics.port")
        if port < 0:
            return
        login = None
        if self.config.get_str("metrics.authentication.method").upper() == "KAFKA":
            login = MetricsLogin(self._scram_users, lambda: self._authorizer).status
        endpoint = MetricsEndpoint(
            host,
            port,
            lambda: in_slices(self._metric_lines()),
            login=login,
            names=self.config.get_list("metrics.allowed.hosts"),
            names_setting="metrics.allowed.hosts",
            health_checks={
                "/livez": self._livez,
                "/readyz": lambda: self._readyz(with_names=login is None),
            },
        )
        try:
            await endpoint.start()
        except OSError as error:
            raise StartupError(
                f"Cannot listen on {host}:{port} for metrics: {error.strerror or error}. "
                "Free it, or choose another metrics.port."
            ) from None
        self._endpoint = endpoint

    async def _livez(self) -> tuple[bool, Mapping[str, object]]:
        is_well = self._failed is None or not self._failed.done()
        return is_well, {"status": "alive" if is_well else "failed", "broker": self.config.broker_id}

    async def _readyz(self, *, with_names: bool) -> tuple[bool, Mapping[str, object]]:
        broker = None if self._member is None else self.broker
        found = await readiness(self._state, self.config.broker_id, broker, with_names=with_names)
        return found.is_ready, found.as_json()

    def _scram_users(self) -> Mapping[str, Mapping[str, str]]:
        return {} if self._member is None else self.broker.image.scram_credentials

    async def _close_metrics(self) -> None:
        if self._member is not None and self.broker.otlp_export is not None:
            await self.broker.otlp_export.finish()
        if self._endpoint is not None:
            await self._endpoint.stop()
        if self._member is not None and self.broker.metrics is not None:
            self.broker.metrics.stop()

    def _metric_lines(self) -> Iterator[str]:
        if self._member is not None and self.broker.metrics is not None:
            yield from self.broker.metrics.lines()
        else:
            yield from metrics_of_start()

    def _bind(self, name: str, host: str, port: int, limits: ConnectionLimits) -> None:
        listener = Listener(
            name,
            host,
            port,
            self.config.get_int("socket.request.max.bytes"),
            limits,
            self.config.get_int("connections.max.idle.ms"),
        )
        try:
            listener.bind()
        except OSError as error:
            where = f"{host or '*'}:{port}"
            if error.errno == errno.EADDRINUSE:
                raise PortTaken(
                    f"Port {port} on {host or 'this machine'} is taken by another program: stop it, "
                    "or listen elsewhere"
                ) from None
            raise StartupError(f"Cannot listen on {where}: {error.strerror or error}.") from None
        self._listeners.append(listener)


def _take_descriptors() -> None:
    """Raise the limit on file descriptors and divide them between logs and connections."""
    descriptors.raise_limit()
    active_files.capacity = descriptors.for_active_segments()
    sealed_files.capacity = descriptors.for_sealed_segments()
