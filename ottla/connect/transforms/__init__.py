"""Transforms and predicates, applied to each record between the connector and the topic.

`Chain.from_config` creates the configured ones. `PLUGINS` maps Java class names to ours.
"""

from ottla.connect.transforms.base import Predicate, Transform
from ottla.connect.transforms.chain import Chain

__all__ = ["INTERCEPTORS", "PLUGINS", "PREDICATES", "Chain", "Predicate", "Transform"]

_HERE = "ottla.connect.transforms"
_KAFKA = "org.apache.kafka.connect.transforms"
_CDC = "ottla.connect.connectors.cdc"

#: Transforms with variants for keys and values, and their modules.
_OF_KEY_OR_VALUE = {
    "Cast": "cast",
    "ExtractField": "extract_field",
    "Flatten": "flatten",
    "HeaderFrom": "header_from",
    "HoistField": "hoist_field",
    "InsertField": "insert_field",
    "MaskField": "mask_field",
    "ReplaceField": "replace_field",
    "SetSchemaMetadata": "set_schema_metadata",
    "TimestampConverter": "timestamp_converter",
}

#: Our implementation of each Kafka transform.
PLUGINS = {
    f"{_KAFKA}.{name}${part}": f"{_HERE}.{module}:{name}{part}"
    for name, module in _OF_KEY_OR_VALUE.items()
    for part in ("Key", "Value")
} | {
    f"{_KAFKA}.DropHeaders": f"{_HERE}.headers:DropHeaders",
    f"{_KAFKA}.Filter": f"{_HERE}.filter:Filter",
    f"{_KAFKA}.InsertHeader": f"{_HERE}.headers:InsertHeader",
    f"{_KAFKA}.RegexRouter": f"{_HERE}.routers:RegexRouter",
    f"{_KAFKA}.TimestampRouter": f"{_HERE}.routers:TimestampRouter",
    f"{_KAFKA}.ValueToKey": f"{_HERE}.value_to_key:ValueToKey",
    "io.debezium.transforms.ByLogicalTableRouter": f"{_CDC}.topic_router:ByLogicalTableRouter",
    "io.debezium.transforms.ExtractNewRecordState": f"{_CDC}.unwrap:ExtractNewRecordState",
}

#: Our own transforms by short name, and their modules.
INTERCEPTORS = {
    "AddHost": "adding",
    "AddStatic": "adding",
    "AddTime": "adding",
    "AddUuid": "adding",
    "DropFields": "changing",
    "FilterByPattern": "looking",
    "Hash": "changing",
    "Mask": "changing",
    "RegexExtractor": "looking",
}
PLUGINS |= {
    f"ottla.interceptors.{name}": f"{_HERE}.interceptors.{module}:{name}"
    for name, module in INTERCEPTORS.items()
}

#: Our implementation of each Kafka predicate.
PREDICATES = {
    f"{_KAFKA}.predicates.{name}": f"{_HERE}.predicates:{name}"
    for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")
}
