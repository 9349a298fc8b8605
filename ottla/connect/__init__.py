"""Kafka Connect in Python: connectors, converters and transforms with Kafka's settings, run on Spark.

`api.py` describes the connector contract. Connector authors import from this package:

    from ottla.connect import ConfigDef, SourceConnector, SourceRecord, SourceTask
"""

from ottla.connect.api import (
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance
from ottla.connect.data.record import Header, SinkRecord, SourceRecord
from ottla.connect.data.schema import Field, Schema, SchemaBuilder, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError, DataError, RetriableError

__all__ = [
    "ConfigDef",
    "ConfigError",
    "ConfigType",
    "ConnectError",
    "DataError",
    "Field",
    "Header",
    "Importance",
    "RetriableError",
    "Schema",
    "SchemaBuilder",
    "SchemaType",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceConnector",
    "SourceRecord",
    "SourceTask",
    "SourceTaskContext",
    "Struct",
]
