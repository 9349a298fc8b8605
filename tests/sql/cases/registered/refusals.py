"""Refused statements with AVRO, PROTOBUF and JSON_SR, with ksqlDB's messages."""

from __future__ import annotations

from tests.sql.cases.case import Case, Registered
from tests.sql.cases.registered.schemas import avro, field, json_schema, proto, user

_GROUP = "schemas that cannot be"
_J = "CREATE STREAM s (k INT KEY, a INT, b STRING) WITH (kafka_topic='s', partitions=1);"


def _refused(name: str, statements: str, reason: str, *schemas: Registered) -> Case:
    return Case(name, statements, grouped=_GROUP, refused=reason, registry=True, schemas=schemas)


CASES: list[Case] = [
    Case(
        "no registry is set",
        "CREATE STREAM s WITH (kafka_topic='s', value_format='AVRO');",
        grouped=_GROUP,
        refused="KSQL is not configured to use a schema registry: set ksql.schema.registry.url",
    ),
    Case(
        "no registry is set, and columns are given",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF');",
        grouped=_GROUP,
        refused="KSQL is not configured to use a schema registry",
    ),
    Case(
        "a registry that does not answer",
        "SET 'ksql.schema.registry.url' = 'http://127.0.0.1:1';"
        "CREATE STREAM s WITH (kafka_topic='s', value_format='AVRO');",
        grouped=_GROUP,
        refused="Schema registry fetch for topic value request failed. Topic: s. No schema registry answers at",
    ),
    _refused(
        "no schema of the values",
        "CREATE STREAM s WITH (kafka_topic='s', value_format='AVRO');",
        "Schema for message values on topic s does not exist in the Schema Registry. Subject: s-value.\n"
        "Possible causes include:\n- The topic itself does not exist",
    ),
    _refused(
        "no schema of the keys",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', partitions=1, format='PROTOBUF');",
        "Schema for message keys on topic s does not exist in the Schema Registry. Subject: s-key.",
    ),
    _refused(
        "an id that there is not",
        "CREATE STREAM s WITH (kafka_topic='s', value_format='AVRO', value_schema_id=77);",
        "Subject: s-value. Schema Id: 77.",
    ),
    _refused(
        "a schema of another format",
        "CREATE STREAM s WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF');",
        "Value schema is not in the expected format. You may want to set VALUE_FORMAT to 'AVRO'. topic: s, expected "
        "format: PROTOBUF, actual format: AVRO",
        user("AVRO"),
    ),
    _refused(
        "columns and an id",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', partitions=1, value_format='AVRO', value_schema_id=1);",
        "Table elements and VALUE_SCHEMA_ID cannot both exist for create statement.",
        user("AVRO"),
    ),
    _refused(
        "an id of a format without schemas",
        "CREATE STREAM s (k INT KEY, a INT) WITH (kafka_topic='s', partitions=1, value_schema_id=1);",
        "VALUE_FORMAT should support schema inference when VALUE_SCHEMA_ID is provided. Current format is JSON.",
    ),
    _refused(
        "an id of a query without such a format",
        _J + "CREATE STREAM o WITH (value_schema_id=1) AS SELECT * FROM s;",
        "VALUE_FORMAT should support schema inference when VALUE_SCHEMA_ID is provided. Current format is JSON.",
    ),
    _refused(
        "a schema that is no record",
        "CREATE STREAM s WITH (kafka_topic='s', partitions=1, value_format='AVRO');",
        "Schema returned from schema registry is anonymous type. To use this schema with ksqlDB, set "
        "'WRAP_SINGLE_VALUE=false' in the WITH clause properties.",
        Registered("s-value", '"int"'),
    ),
    _refused(
        "a record that contains itself",
        "CREATE STREAM s WITH (kafka_topic='s', partitions=1, value_format='AVRO');",
        "Unable to verify if the value schema for topic s is compatible with ksqlDB. Reason: record R contains itself.",
        avro("s-value", field("next", ["null", "R"], default=None)),
    ),
    _refused(
        "no column of a type that there is",
        "CREATE STREAM s WITH (kafka_topic='s', partitions=1, value_format='AVRO');",
        "Schema does not include any columns with types that ksqlDB supports.",
        avro("s-value", field("n", "null")),
    ),
    _refused(
        "a key of several fields",
        "CREATE STREAM s (v INT) WITH (kafka_topic='s', partitions=1, key_format='PROTOBUF');",
        "The key schema for topic s contains multiple columns, which is not supported by ksqlDB at this time.",
        proto("s-key", "message K { int32 a = 1; int32 b = 2; }"),
    ),
    _refused(
        "a bare value in PROTOBUF",
        "CREATE STREAM s (a INT) "
        "WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF', wrap_single_value=false);",
        "Format 'PROTOBUF' does not support 'WRAP_SINGLE_VALUE' set to 'false'.",
    ),
    _refused(
        "a table without a key",
        "CREATE TABLE t WITH (kafka_topic='s', partitions=1, value_format='AVRO');",
        "A table needs a column with PRIMARY KEY.",
        user("AVRO"),
    ),
    _refused(
        "a query whose schema is not compatible",
        _J + "CREATE STREAM o WITH (value_format='AVRO') AS SELECT k, b AS a FROM s;",
        "Could not register schema for topic: O, subject O-value: Schema being registered is incompatible with an "
        "earlier schema",
        avro(
            "O-value",
            field("A", ["null", "int"], default=None),
            name="io.confluent.ksql.avro_schemas.KsqlDataSourceSchema",
        ),
    ),
    _refused(
        "what is not compatible is named",
        _J + "CREATE STREAM o WITH (value_format='AVRO') AS SELECT k, b AS a FROM s;",
        "/fields/0/type",
        avro(
            "O-value",
            field("A", ["null", "int"], default=None),
            name="io.confluent.ksql.avro_schemas.KsqlDataSourceSchema",
        ),
    ),
    _refused(
        "an id whose schema lacks a column",
        _J + "CREATE STREAM o WITH (value_format='AVRO', value_schema_id=1) AS SELECT k, a, b FROM s;",
        "The following value columns are changed, missing or reordered: [`B` STRING]. Schema from schema registry is "
        "[`A` INTEGER]",
        avro("x", field("A", "int")),
    ),
    _refused(
        "an id whose schema has another type",
        _J + "CREATE STREAM o WITH (value_format='AVRO', value_schema_id=1) AS SELECT k, a FROM s;",
        "The following value columns are changed, missing or reordered: [`A` INTEGER].",
        avro("x", field("A", "string")),
    ),
    _refused(
        "a name of the schema in JSON_SR",
        "CREATE STREAM s (a INT) "
        "WITH (kafka_topic='s', partitions=1, value_format='JSON_SR', value_schema_full_name='a.B');",
        "VALUE_SCHEMA_FULL_NAME is not supported with format: JSON_SR",
    ),
    _refused(
        "how null is said that there is not",
        "CREATE STREAM s (a INT) WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF', "
        "value_protobuf_nullable_representation='BOX');",
        "VALUE_PROTOBUF_NULLABLE_REPRESENTATION is OPTIONAL or WRAPPER, of the format PROTOBUF.",
    ),
    _refused(
        "a name that Avro does not have",
        "CREATE STREAM s (`a b` INT) WITH (kafka_topic='s', partitions=1, value_format='AVRO');",
        "Schema is not compatible with AVRO: Illegal character in: a b.",
    ),
    _refused(
        "an array of arrays in PROTOBUF",
        "CREATE STREAM s (a ARRAY<ARRAY<INT>>) WITH (kafka_topic='s', partitions=1, value_format='PROTOBUF');",
        "Protobuf has no ARRAY<ARRAY<INTEGER>>: put the inner one into a STRUCT.",
    ),
    _refused(
        "ALTER of columns that a schema made",
        "CREATE STREAM s WITH (kafka_topic='s', partitions=1, value_format='AVRO'); ALTER STREAM s ADD COLUMN x INT;",
        "S has the columns of its schema: register a new version, and CREATE OR REPLACE it.",
        user("AVRO"),
    ),
    _refused(
        "null for a field that must be there",
        "CREATE STREAM s (k INT KEY) WITH (kafka_topic='s', partitions=1, value_format='AVRO', value_schema_id=1);"
        "INSERT INTO s VALUES (1, NULL);",
        "Failed to insert values into 'S'. Could not serialize value: [ null ].",
        avro("x", field("a", "int")),
    ),
    _refused(
        "ASSERT SCHEMA of a subject that there is not",
        "ASSERT SCHEMA SUBJECT 's-value' TIMEOUT 0 SECONDS;",
        "Schema with subject name s-value does not exist.",
    ),
    _refused(
        "ASSERT SCHEMA of an id that the subject does not have",
        "ASSERT SCHEMA SUBJECT 's-value' ID 9 TIMEOUT 0 SECONDS;",
        "Schema with subject name s-value id 9 does not exist.",
        user("JSON_SR"),
    ),
    _refused(
        "ASSERT NOT EXISTS SCHEMA of one that there is",
        "ASSERT NOT EXISTS SCHEMA ID 1 TIMEOUT 0 SECONDS;",
        "Schema with id 1 exists.",
        json_schema("s-value", {"type": "object"}),
    ),
    _refused(
        "ASSERT SCHEMA of nothing",
        "ASSERT SCHEMA TIMEOUT 0 SECONDS;",
        "ASSERT SCHEMA statements need at least one of SUBJECT and ID.",
    ),
]
