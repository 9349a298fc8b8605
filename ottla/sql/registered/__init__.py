"""AVRO, PROTOBUF and JSON_SR: formats of keys and values whose schemas a registry keeps.

`inference` makes columns of a schema, `physical` the schema of columns, as ksqlDB names it; `conversions` are the
expressions of Spark SQL between what the decoders of `ottla.spark.formats` give and columns of SQL; `codecs` runs
them; `schemas` is what a session asks the registry for.
"""
