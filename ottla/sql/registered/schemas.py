"""A session's access to the schema registry: inferred columns, registered schemas, and codecs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from ottla.client.errors import ClientError, Unreachable
from ottla.client.schema_registry import RegistryError, RegistrySettings, Schema, SchemaRegistry
from ottla.spark.formats.protobuf.messages import ProtobufError
from ottla.spark.formats.registered.decoder import format_decoder
from ottla.spark.formats.registered.schema_source import SchemaSource, shared_registry
from ottla.spark.options import OptionError
from ottla.sql.errors import Position, SqlError
from ottla.sql.parsing.statements import ColumnDefinition, CreateSource, Properties
from ottla.sql.registered import inference
from ottla.sql.registered.codecs import NONE, Codecs, PartCodec
from ottla.sql.registered.conversions import asked_for, asked_type
from ottla.sql.registered.formats import OF_TYPE, REGISTERED, WITHOUT_REGISTRY, can_be_bare
from ottla.sql.registered.physical import schema_of
from ottla.sql.sources import Source, formats_of, schema_ids_of

#: Column names for schemas that describe a bare value.
BARE_NAMES = {"key": "ROWKEY", "value": "ROWVAL"}
_FORBIDDEN = (401, 403)


class Schemas:
    """`properties` returns the current settings under ksqlDB's names, such as ksql.schema.registry.url."""

    def __init__(self, properties: Callable[[], Mapping[str, str]]) -> None:
        self._properties = properties

    @property
    def registry(self) -> SchemaRegistry:
        return shared_registry(self._settings())

    def find_registry(self) -> SchemaRegistry | None:
        """Return the registry, or None if none is configured."""
        return None if not self._properties() else self.registry

    def _settings(self) -> RegistrySettings:
        given = self._properties()
        if not given.get("schema.registry.url"):
            raise SqlError(
                "KSQL is not configured to use a schema registry: set ksql.schema.registry.url, "
                "as in SET 'ksql.schema.registry.url' = 'http://localhost:8081'."
            )
        try:
            return RegistrySettings.from_properties(given)
        except ClientError as error:
            raise SqlError(error.message) from None

    # Inference

    def completed(self, statement: CreateSource) -> tuple[CreateSource, dict[str, Any]]:
        """Add the columns inferred from schemas to the statement. Return it with the schema properties."""
        formats, ids = formats_of(statement), schema_ids_of(statement.properties)
        known: dict[str, Any] = {}
        columns = list(statement.columns)
        for part in ("key", "value"):
            declared = [each for each in columns if not each.is_headers and each.is_key == (part == "key")]
            wanted = ids[part]
            if formats[part] not in REGISTERED:
                if wanted is not None:
                    raise SqlError(
                        f"{part.upper()}_FORMAT should support schema inference when {part.upper()}_SCHEMA_ID is "
                        f"provided. Current format is {formats[part]}.",
                        statement.properties[f"{part}_schema_id"].position,
                    )
                continue
            if declared and wanted is not None:
                raise SqlError(
                    f"Table elements and {part.upper()}_SCHEMA_ID cannot both exist for create statement.",
                    statement.properties[f"{part}_schema_id"].position,
                )
            if declared and formats[part] == "JSON_SR":
                columns = self._spelled(columns, declared, f"{_topic(statement)}-{part}")
            if declared:
                continue
            found, schema = self._inferred(statement, part, formats[part], wanted)
            if part == "key" and len(found) > 1:
                raise SqlError(
                    f"The key schema for topic {_topic(statement)} contains multiple columns, which is not supported "
                    f"by ksqlDB at this time. Schema: {schema.text}",
                    statement.position,
                )
            columns = [*found, *columns] if part == "key" else [*columns, *found]
            known |= {f"{part}_schema_id": schema.id, f"{part}_is_inferred": True}
        return dataclasses.replace(statement, columns=tuple(columns)), known

    def _spelled(
        self, columns: list[ColumnDefinition], declared: list[ColumnDefinition], subject: str
    ) -> list[ColumnDefinition]:
        """Use the latest schema's spelling for declared columns."""
        try:
            latest = self.registry.latest(subject)
            whole = inference.whole_type(latest, self.registry.referenced(latest))
        except (ClientError, OptionError):
            return columns
        names = {each.name.upper(): each.name for each in whole.fields} if whole is not None else {}
        return [
            dataclasses.replace(each, written=names.get(each.name, each.written))
            if each in declared and each.name == each.name.upper()
            else each
            for each in columns
        ]

    def _inferred(
        self, statement: CreateSource, part: str, form: str, wanted: int | None
    ) -> tuple[list[ColumnDefinition], Schema]:
        topic, position = _topic(statement), statement.position
        schema = self._schema(topic, part, wanted, position)
        if OF_TYPE.get(schema.type) != form:
            actual = OF_TYPE.get(schema.type, schema.type)
            raise SqlError(
                f"{part.capitalize()} schema is not in the expected format. You may want to set "
                f"{part.upper()}_FORMAT to '{actual}'. topic: {topic}, expected format: {form}, "
                f"actual format: {actual}",
                position,
            )
        said = statement.properties.get("wrap_single_value")
        bare = form != "PROTOBUF" if part == "key" else said is not None and said.value is False
        try:
            message = _message(statement.properties, part) if form == "PROTOBUF" else None
            whole = inference.whole_type(schema, self.registry.referenced(schema), message)
            if whole is not None and wanted is None:
                whole = inference.upper(whole)
            if not bare and whole is not None and whole.name != "STRUCT":
                raise inference.NotUsable(
                    "Schema returned from schema registry is anonymous type. To use this schema with ksqlDB, set "
                    "'WRAP_SINGLE_VALUE=false' in the WITH clause properties"
                )
            if whole is None:
                raise inference.NotUsable(
                    "Schema does not include any columns with types that ksqlDB supports"
                )
            if REGISTERED[form] != "jsonschema":
                # Check that the schema can be decoded.
                self._type(form, SchemaSource(self._settings(), id=schema.id, message=message), schema)
        except (inference.NotUsable, OptionError, ClientError, ValueError, ProtobufError) as error:
            reason = getattr(error, "message", None) or str(error)
            raise SqlError(
                f"Unable to verify if the {part} schema for topic {topic} is compatible with ksqlDB. "
                f"Reason: {reason.rstrip('.')}. Schema: {schema.text}",
                position,
            ) from None
        if bare:
            fields = [ColumnDefinition(BARE_NAMES[part], BARE_NAMES[part], whole, part == "key")]
        else:
            fields = [
                ColumnDefinition(each.name, each.written, each.type, part == "key") for each in whole.fields
            ]
        return fields, schema

    def _schema(self, topic: str, part: str, wanted: int | None, position: Position | None) -> Schema:
        subject = f"{topic}-{part}"
        try:
            return self.registry.latest(subject) if wanted is None else self.registry.by_id(wanted)
        except RegistryError as error:
            if not error.is_not_found and error.status not in _FORBIDDEN:
                raise SqlError(
                    f"Schema registry fetch for topic {part} request failed. Topic: {topic}. {error.message}",
                    position,
                ) from None
            raise SqlError(_not_found(topic, part, subject, wanted), position) from None
        except Unreachable as error:
            raise SqlError(
                f"Schema registry fetch for topic {part} request failed. Topic: {topic}. {error.message}",
                position,
            ) from None

    # Registration

    def registered(self, source: Source, position: Position, *, always: bool) -> Source:
        """Register the schemas for writing and return the source with their ids.

        Unless `always` is set, skip subjects that already exist.
        """
        for part in ("key", "value"):
            form, columns = _part(source, part)
            if form not in REGISTERED or not columns:
                continue
            subject, given = f"{source.topic}-{part}", getattr(source, f"{part}_schema_id")
            try:
                if given is not None:
                    schema = self.registry.by_id(given)
                    if not getattr(source, f"{part}_is_inferred"):
                        self._check_superset(source, part, schema, position)
                elif always or not self._exists(subject):
                    schema = self._physical(source, part)
                else:
                    continue
                number = self.registry.register(
                    subject, schema._replace(id=-1, guid="", subject="", version=-1)
                )
            except SqlError as error:
                raise SqlError(error.message, error.position or position) from None
            except ClientError as error:
                reason = getattr(error, "reason", "") or error.message
                raise SqlError(
                    f"Could not register schema for topic: {source.topic}, subject {subject}: {reason}",
                    position,
                ) from None
            changes: dict[str, Any] = {f"{part}_schema_id": given or number}
            source = dataclasses.replace(source, **changes)
        return source

    def has(self, subject: str | None, number: int | None) -> bool:
        """Return True if a schema with this subject, this id, or both exists."""
        try:
            if number is None:
                assert subject is not None
                return bool(self.registry.versions(subject))
            found = self.registry.request("GET", f"/schemas/ids/{number}/versions")
            return bool(found) and (subject is None or any(each["subject"] == subject for each in found))
        except RegistryError as error:
            if error.is_not_found:
                return False
            raise SqlError(f"Cannot check whether the schema exists: {error.message}") from None
        except Unreachable as error:
            raise SqlError(f"Cannot check whether the schema exists: {error.message}") from None

    def _exists(self, subject: str) -> bool:
        try:
            self.registry.latest(subject)
        except RegistryError as error:
            if error.is_not_found:
                return False
            raise
        return True

    def _physical(self, source: Source, part: str) -> Schema:
        form, columns = _part(source, part)
        return schema_of(
            "PROTOBUF" if form == WITHOUT_REGISTRY else form,
            columns,
            bare=_is_bare(source, part),
            full_name=getattr(source, f"{part}_schema_name"),
            nullable=getattr(source, f"{part}_nullable"),
        )

    def _check_superset(self, source: Source, part: str, schema: Schema, position: Position) -> None:
        form, columns = _part(source, part)
        whole = inference.whole_type(schema, self.registry.referenced(schema))
        bare = _is_bare(source, part)
        if OF_TYPE.get(schema.type) != form:
            actual = OF_TYPE.get(schema.type, schema.type)
            raise SqlError(
                f"{part.capitalize()} schema is not in the expected format. You may want to set "
                f"{part.upper()}_FORMAT to '{actual}'.",
                position,
            )
        there = (
            {BARE_NAMES[part]: whole}
            if bare
            else {each.name: each.type for each in whole.fields}
            if whole
            else {}
        )
        for column in columns:
            kind = whole if bare else there.get(column.name)
            if kind is None or str(kind) != str(column.type):
                shown = ", ".join(f"`{name}` {each}" for name, each in there.items())
                raise SqlError(
                    f"The following {part} columns are changed, missing or reordered: [`{column.name}` {column.type}]. "
                    f"Schema from schema registry is [{shown}]",
                    position,
                )

    def dropped(self, source: Source) -> None:
        """Delete the subjects of a deleted topic, if a registry is configured."""
        for part in ("key", "value"):
            if _part(source, part)[0] not in REGISTERED or not self._properties():
                continue
            try:
                self.registry.request("DELETE", f"/subjects/{source.topic}-{part}")
            except ClientError as error:
                if not isinstance(error, RegistryError) or not error.is_not_found:
                    raise SqlError(
                        f"Could not clean up the schema registry for topic: {source.topic}. {error.message}"
                    ) from None

    # Codecs

    def codecs(self, source: Source, *, writing: bool = False) -> Codecs:
        """Return the codecs of a source. With `writing`, register its schemas if necessary."""
        forms = (source.key_format, source.value_format)
        if not any(each in REGISTERED or each == WITHOUT_REGISTRY for each in forms):
            return NONE
        try:
            options = {} if not any(each in REGISTERED for each in forms) else self._options()
            return Codecs(self._codec(source, "key", writing), self._codec(source, "value", writing), options)
        except OptionError as error:
            raise SqlError(f"{source.name}: {error.message}") from None
        except ClientError as error:
            raise SqlError(f"The schemas of {source.name}: {error.message}") from None

    def _options(self) -> dict[str, str]:
        self._settings()
        return dict(self._properties())

    def _codec(self, source: Source, part: str, writing: bool) -> PartCodec | None:
        form, columns = _part(source, part)
        if not columns or (form not in REGISTERED and form != WITHOUT_REGISTRY):
            return None
        bare = _is_bare(source, part)
        if form == WITHOUT_REGISTRY:
            own = self._physical(source, part)
            alone = SchemaSource(text=own.text)
            kind = self._type(form, alone, own)
            return PartCodec(form, part, columns, bare, alone, own, kind, True, own, kind)
        settings = self._settings()
        message = getattr(source, f"{part}_schema_name") if form == "PROTOBUF" else None
        codec = PartCodec(form, part, columns, bare, SchemaSource(settings, message=message))
        number = getattr(source, f"{part}_schema_id")
        schema: Schema | None = None
        if number is not None:
            schema = self.registry.by_id(number)
        elif writing:
            physical = self._physical(source, part)
            number = self.registry.register(f"{source.topic}-{part}", physical)
            schema = physical._replace(id=number)
        if form == "JSON_SR":
            return dataclasses.replace(codec, schema=schema, by_schema=getattr(source, f"{part}_is_inferred"))
        wanted = None
        if schema is not None:
            codec = dataclasses.replace(codec, source=dataclasses.replace(codec.source, id=schema.id))
            wanted = self._type(form, codec.source, schema)
            codec = dataclasses.replace(codec, schema=schema, wanted=wanted)
        if getattr(source, f"{part}_is_inferred"):
            assert schema is not None
            return dataclasses.replace(codec, reader=schema, found=wanted, by_schema=True)
        reading = SchemaSource(settings, message=message)
        known = self._known(form, f"{source.topic}-{part}", reading) or wanted
        found = asked_type(columns[0].type, known, form) if bare else asked_for(columns, known, form)
        return dataclasses.replace(codec, source=reading, found=found)

    def _known(self, form: str, subject: str, source: SchemaSource) -> pa.DataType | None:
        try:
            latest = self.registry.latest(subject)
            if OF_TYPE.get(latest.type) != form:
                return None
            return self._type(form, dataclasses.replace(source, id=latest.id), latest)
        except (RegistryError, OptionError):
            return None

    def _type(self, form: str, source: SchemaSource, schema: Schema) -> pa.DataType:
        kind = "protobuf" if form == WITHOUT_REGISTRY else REGISTERED[form]
        return format_decoder(kind, source, schema, None, "the schema").type


def _part(source: Source, part: str) -> tuple[str, tuple[ColumnDefinition, ...]]:
    if part == "key":
        return source.key_format, source.keys
    return source.value_format, source.values


def _is_bare(source: Source, part: str) -> bool:
    form, columns = _part(source, part)
    if part == "key":
        return len(columns) == 1 and can_be_bare(form)
    return source.is_unwrapped


def _message(properties: Properties, part: str) -> str | None:
    said = properties.get(f"{part}_schema_full_name")
    return str(said.value).strip() if said is not None else None


def _topic(statement: CreateSource) -> str:
    from ottla.sql.sources import topic_of

    return topic_of(statement.properties, statement.name)


def _not_found(topic: str, part: str, subject: str, wanted: int | None) -> str:
    which = "" if wanted is None else f" Schema Id: {wanted}."
    return "\n".join(
        [
            f"Schema for message {part}s on topic {topic} does not exist in the Schema Registry. "
            f"Subject: {subject}.{which}",
            "Possible causes include:",
            "- The topic itself does not exist: use SHOW TOPICS; to check.",
            "- Messages on the topic are not serialized with a schema: "
            f"use PRINT '{topic}' FROM BEGINNING; to verify.",
            "- The schema is registered on another schema registry: GET /subjects lists the existing subjects.",
            f"- You do not have permissions to access the Schema Registry subject {subject}.",
        ]
    )
