"""Converters between Connect values and the bytes of keys, values and headers.

`load_converter` creates the configured converter. `PLUGINS` maps Java class names to ours.
"""

from ottla.connect.converters.converter import Converter, HeaderConverter
from ottla.connect.converters.loading import load_converter

__all__ = ["PLUGINS", "Converter", "HeaderConverter", "load_converter"]

_HERE = "ottla.connect.converters"

#: Our implementation of each Kafka or Confluent class.
PLUGINS = {
    "org.apache.kafka.connect.storage.StringConverter": f"{_HERE}.string_converter:StringConverter",
    "org.apache.kafka.connect.json.JsonConverter": f"{_HERE}.json_converter:JsonConverter",
    "org.apache.kafka.connect.converters.ByteArrayConverter": f"{_HERE}.byte_array:ByteArrayConverter",
    "org.apache.kafka.connect.converters.BooleanConverter": f"{_HERE}.primitives:BooleanConverter",
    "org.apache.kafka.connect.converters.ShortConverter": f"{_HERE}.primitives:ShortConverter",
    "org.apache.kafka.connect.converters.IntegerConverter": f"{_HERE}.primitives:IntegerConverter",
    "org.apache.kafka.connect.converters.LongConverter": f"{_HERE}.primitives:LongConverter",
    "org.apache.kafka.connect.converters.FloatConverter": f"{_HERE}.primitives:FloatConverter",
    "org.apache.kafka.connect.converters.DoubleConverter": f"{_HERE}.primitives:DoubleConverter",
    "io.confluent.connect.avro.AvroConverter": f"{_HERE}.registry.avro_converter:AvroConverter",
    "io.confluent.connect.json.JsonSchemaConverter": f"{_HERE}.registry.json_schema_converter:JsonSchemaConverter",
    "io.confluent.connect.protobuf.ProtobufConverter": f"{_HERE}.registry.protobuf_converter:ProtobufConverter",
    "org.apache.kafka.connect.storage.SimpleHeaderConverter": f"{_HERE}.simple_header:SimpleHeaderConverter",
}
