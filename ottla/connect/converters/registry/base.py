"""Common base of the registry converters: settings, subjects, and the schema id before the payload."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.schema_codecs import BadData, framed, unframed
from ottla.client.schema_registry import RegistryError, RegistrySettings, SchemaRegistry
from ottla.client.schema_registry import Schema as RegisteredSchema
from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance
from ottla.connect.converters.converter import NULL, Converter, SchemaAndValue, converter_config
from ottla.connect.converters.registry.subjects import strategy
from ottla.connect.data.schema import Schema
from ottla.connect.errors import ConnectError, DataError, RetriableError

_BOOLEAN, _STRING, _INT = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT
_TOPIC_NAME = "io.confluent.kafka.serializers.subject.TopicNameStrategy"

# fmt: off
_SETTINGS = (
    ("schema.registry.url", ConfigType.LIST, None, Importance.HIGH, "URLs of the schema registry."),
    ("basic.auth.credentials.source", _STRING, "URL", Importance.MEDIUM,
     "USER_INFO: the login is in basic.auth.user.info. URL: it is in the URL."),
    ("basic.auth.user.info", ConfigType.PASSWORD, "", Importance.MEDIUM, "user:password for the registry."),
    ("bearer.auth.token", ConfigType.PASSWORD, "", Importance.MEDIUM, "A token for the registry."),
    ("auto.register.schemas", _BOOLEAN, True, Importance.MEDIUM,
     "Register unknown schemas. Otherwise their records are refused."),
    ("use.latest.version", _BOOLEAN, False, Importance.LOW,
     "Write records with the latest schema of their subject. Requires auto.register.schemas=false."),
    ("use.schema.id", _INT, -1, Importance.LOW,
     "Id of the schema for written records. Requires auto.register.schemas=false."),
    ("normalize.schemas", _BOOLEAN, False, Importance.MEDIUM,
        "Normalize schemas before registering them."),
    ("max.schemas.per.subject", _INT, 1000, Importance.LOW, "Number of cached schemas."),
    ("key.subject.name.strategy", _STRING, _TOPIC_NAME, Importance.MEDIUM,
        "Subject name strategy for keys."),
    ("value.subject.name.strategy", _STRING, _TOPIC_NAME, Importance.MEDIUM,
        "Subject name strategy for values."),
    ("schemas.cache.config", _INT, 1000, Importance.LOW, "Number of cached converted schemas."),
)
# fmt: on


def registry_config() -> ConfigDef:
    definition = converter_config()
    for name, kind, default, importance, documentation in _SETTINGS:
        definition.define(name, kind, default, importance, documentation)
    return definition


class RegistryConverter(Converter):
    """Subclasses convert schemas to text and values to bytes."""

    schema_type: str
    config_def = registry_config()

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        self.settings = self.config_def.parse(config)
        if not self.settings["schema.registry.url"]:
            raise ConfigError(
                'Missing required configuration "schema.registry.url" which has no default value.'
            )
        self.is_key = is_key
        role = "key" if is_key else "value"
        setting = f"{role}.subject.name.strategy"
        self._strategy = strategy(self.settings[setting], setting)
        self._auto_register: bool = self.settings["auto.register.schemas"]
        self._latest: bool = self.settings["use.latest.version"]
        self._fixed_id: int = self.settings["use.schema.id"]
        self._normalize: bool = self.settings["normalize.schemas"]
        try:
            self.registry = SchemaRegistry(RegistrySettings.from_properties(_client_properties(config)))
        except ClientError as error:
            raise ConfigError(error.message) from None
        self._ids: dict[tuple[str, str], tuple[int, RegisteredSchema]] = {}
        self._versions: dict[tuple[int, str], int | None] = {}

    def close(self) -> None:
        self.registry.close()

    def to_connect(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return NULL
        try:
            schema_id, payload = unframed(data)
        except BadData:
            raise DataError(
                f"Failed to deserialize data for topic {topic} to {self.schema_type}: it does not begin with the id"
                " of a schema. Was it written by another converter?"
            ) from None
        return self.read(topic, schema_id, payload)

    def read(self, topic: str, schema_id: int, payload: bytes) -> SchemaAndValue:
        raise NotImplementedError

    # The registry

    def registered(self, topic: str, text: str, record: str | None) -> tuple[int, RegisteredSchema]:
        subject = self._strategy(topic, self.is_key, record)
        found = self._ids.get((subject, text))
        if found is None:
            if len(self._ids) >= self.settings["max.schemas.per.subject"]:
                self._ids.clear()
            wanted = RegisteredSchema(text, self.schema_type)
            found = self._ids[subject, text] = self._asked(topic, lambda: self._register(subject, wanted))
        return found

    def _register(self, subject: str, wanted: RegisteredSchema) -> tuple[int, RegisteredSchema]:
        if self._auto_register:
            return self.registry.register(subject, wanted, normalize=self._normalize), wanted
        if self._fixed_id >= 0:
            return self._fixed_id, self.registry.by_id(self._fixed_id)
        if self._latest:
            latest = self.registry.latest(subject)
            return latest.id, latest
        known = self.registry.lookup(subject, wanted, normalize=self._normalize)
        return known.id, wanted

    def schema_by_id(self, topic: str, schema_id: int) -> RegisteredSchema:
        found: RegisteredSchema = self._asked(topic, lambda: self.registry.by_id(schema_id))
        if found.type != self.schema_type:
            raise DataError(
                f"Failed to deserialize data for topic {topic} to {self.schema_type}: its schema {schema_id} is one"
                f" of {found.type}."
            )
        return found

    def version_of(self, topic: str, schema: RegisteredSchema, record: str | None) -> int | None:
        """Return the schema's version under the topic's subject, for the Connect schema."""
        try:
            subject = self._strategy(topic, self.is_key, record)
        except DataError:
            return None
        if (schema.id, subject) not in self._versions:
            try:
                self._versions[schema.id, subject] = self.registry.lookup(subject, schema).version
            except ClientError:
                self._versions[schema.id, subject] = None
        return self._versions[schema.id, subject]

    def _asked(self, topic: str, ask: Any) -> Any:
        try:
            return ask()
        except ConnectError:
            raise
        except RegistryError as error:
            kind = RetriableError if error.is_retriable else DataError
            raise kind(f"Failed to get the schema of topic {topic}: {error.message}") from None
        except ClientError as error:  # the registry is unreachable
            raise RetriableError(f"Failed to get the schema of topic {topic}: {error.message}") from None

    def frame(self, schema_id: int, payload: bytes) -> bytes:
        return framed(schema_id, payload)


def required_schema(schema: Schema | None, topic: str, kind: str) -> Schema:
    if schema is None:
        raise DataError(
            f"A value of topic {topic} has no schema, and cannot be written as {kind}. Use a converter without"
            " schemas, or a connector that gives them."
        )
    return schema


def _client_properties(config: Mapping[str, str]) -> dict[str, str]:
    """Add prefixed copies of settings that Confluent's converters accept with and without the client prefix."""
    properties = dict(config)
    for name in ("basic.auth.user.info", "bearer.auth.token"):
        if config.get(name):
            properties[f"schema.registry.{name}"] = config[name]
    return properties
