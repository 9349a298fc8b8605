"""Kafka Connect on Spark: connectors, converters and transforms as their users know them, run by Structured Streaming.

What a connector is made of is said in `api.py`; this package's face is what an author of one imports:

    from ottla.spark.connect import ConfigDef, SourceConnector, SourceRecord, SourceTask
"""

from ottla.spark.connect.api import (
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.spark.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance
from ottla.spark.connect.data.record import Header, SinkRecord, SourceRecord
from ottla.spark.connect.data.schema import Field, Schema, SchemaBuilder, SchemaType
from ottla.spark.connect.data.struct import Struct
from ottla.spark.connect.errors import ConnectError, DataError, RetriableError

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
