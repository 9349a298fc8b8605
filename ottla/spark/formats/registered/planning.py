"""Driver side of the registry formats: the columns of a query and their schema."""

from __future__ import annotations

import re
from typing import Any

from ottla.client.errors import ClientError
from ottla.client.schema_registry import Schema
from ottla.spark.formats.column_tree import sql_type
from ottla.spark.formats.registered.decoder import format_decoder
from ottla.spark.formats.registered.schema_source import SchemaSource, columns_schema, reader_schemas
from ottla.spark.formats.value_format import ddl
from ottla.spark.options import OptionError


def planned_type(kind: str, source: SchemaSource) -> str:
    schema = columns_schema(source, kind)
    return sql_type(format_decoder(kind, source, schema, None, "the schema").type)


def planned_schema(kind: str, source: SchemaSource, found: Any) -> Schema:
    """Return the schema with the planned columns. A newer schema may have been registered since."""
    wanted = _comparable(ddl(found))
    try:
        for schema in reader_schemas(source, kind):
            if _comparable(sql_type(format_decoder(kind, source, schema, None, "the schema").type)) == wanted:
                return schema
    except OptionError:
        raise
    except ClientError as error:
        raise OptionError(error.message) from None
    raise OptionError(
        "The schema has changed in the registry since the query was planned: load the topic again."
    )


def _comparable(text: str) -> str:
    return re.sub(r"\s", "", text).lower()
