"""AVRO, PROTOBUF and JSON_SR: key and value formats with schemas in a registry.

`inference` derives columns from a schema, and `physical` derives a schema from columns, named as in ksqlDB.
`conversions` renders Spark SQL between the decoders of `ottla.spark.formats` and SQL columns. `codecs` runs these
expressions, and `schemas` talks to the registry for a session.
"""
