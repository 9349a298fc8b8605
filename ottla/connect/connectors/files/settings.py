"""Settings, named as in Confluent's S3 and HDFS sinks."""

from __future__ import annotations

from typing import Any

from ottla.connect.config.config_def import (
    ConfigDef,
    ConfigType,
    Importance,
    at_least,
    invalid,
    not_empty,
    one_of,
)

_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_STRING, _LONG, _INT = ConfigType.STRING, ConfigType.LONG, ConfigType.INT
_PARTITIONERS = "io.confluent.connect.storage.partitioner"


def _positive(name: str, value: Any) -> None:
    if value < 1:
        raise invalid(name, value, "Value must be at least 1")


def _common(definition: ConfigDef, format: str) -> ConfigDef:
    return (
        definition.define(
            "flush.size",
            _INT,
            importance=_HIGH,
            documentation="Number of records per file.",
            validator=_positive,
        )
        .define(
            "rotate.interval.ms",
            _LONG,
            -1,
            _HIGH,
            "Maximum time span of the records in a file; -1 means no limit.",
        )
        .define(
            "rotate.schedule.interval.ms",
            _LONG,
            -1,
            _MEDIUM,
            ("Wall-clock time after which a file is closed; -1 means never. Delivery is then at least once."),
        )
        .define("topics.dir", _STRING, "topics", _HIGH, "Parent directory of the topics.")
        .define(
            "format.class",
            _STRING,
            format,
            _HIGH,
            "JsonFormat, AvroFormat, ParquetFormat or ByteArrayFormat.",
        )
        .define(
            "partitioner.class",
            _STRING,
            f"{_PARTITIONERS}.DefaultPartitioner",
            _HIGH,
            "Partitioner, which chooses the directory of a record.",
        )
        .define("partition.field.name", ConfigType.LIST, [], _MEDIUM, "The fields of FieldPartitioner.")
        .define(
            "partition.duration.ms", _LONG, -1, _MEDIUM, ("Time span of a directory of TimeBasedPartitioner.")
        )
        .define(
            "path.format",
            _STRING,
            "",
            _MEDIUM,
            "The directories of TimeBasedPartitioner, such as 'year'=YYYY/'month'=MM.",
        )
        .define("locale", _STRING, "", _MEDIUM, "No effect; names of months and days are English.")
        .define("timezone", _STRING, "", _MEDIUM, "Time zone of directories by time. [default: UTC]")
        .define(
            "timestamp.extractor",
            _STRING,
            "Wallclock",
            _MEDIUM,
            "Wallclock, Record or RecordField. With Wallclock at least once.",
        )
        .define("timestamp.field", _STRING, "timestamp", _MEDIUM, "The field of RecordField.")
        .define(
            "schema.compatibility",
            _STRING,
            "NONE",
            _MEDIUM,
            "Treatment of a record with another schema.",
            validator=one_of("NONE", "BACKWARD", "FORWARD", "FULL"),
        )
        .define(
            "behavior.on.null.values",
            _STRING,
            "fail",
            _LOW,
            "Treatment of records without a value.",
            validator=one_of("fail", "ignore"),
        )
        .define(
            "avro.codec",
            _STRING,
            "null",
            _LOW,
            "The compression of Avro files.",
            validator=one_of("null", "deflate", "snappy", "bzip2"),
        )
        .define(
            "parquet.codec",
            _STRING,
            "snappy",
            _LOW,
            "The compression of Parquet files.",
            validator=one_of("none", "gzip", "snappy", "lz4", "brotli", "zstd"),
        )
        .define(
            "s3.compression.type",
            _STRING,
            "none",
            _LOW,
            "The compression of JSON and bytes.",
            validator=one_of("none", "gzip"),
        )
        .define("format.bytearray.extension", _STRING, ".bin", _LOW, "File name extension for bytes.")
        .define(
            "format.bytearray.separator",
            _STRING,
            None,
            _LOW,
            "Separator between values. [default: a newline]",
        )
        .define(
            "file.delim",
            _STRING,
            "+",
            _MEDIUM,
            "Separator between the parts of a file name.",
            validator=not_empty,
        )
        .define(
            "directory.delim", _STRING, "/", _MEDIUM, "Separator between directories.", validator=not_empty
        )
        .define(
            "filename.offset.zero.pad.width",
            _INT,
            10,
            _LOW,
            "Number of digits of offsets in file names.",
            validator=at_least(0),
        )
    )


def s3() -> ConfigDef:
    own = (
        ConfigDef()
        .define("s3.bucket.name", _STRING, importance=_HIGH, documentation="The bucket.", validator=not_empty)
        .define("s3.region", _STRING, "us-west-2", _MEDIUM, "The region of the bucket.")
        .define("store.url", _STRING, "", _HIGH, "The address of a server other than Amazon's.")
        .define("aws.access.key.id", _STRING, "", _HIGH, "Access key. [default: from the environment]")
        .define("aws.secret.access.key", ConfigType.PASSWORD, "", _HIGH, "The secret key.")
        .define(
            "s3.path.style.access.enabled",
            ConfigType.BOOLEAN,
            True,
            _LOW,
            "Put the bucket into the path instead of the host name.",
        )
        .define("s3.part.size", _INT, 26214400, _LOW, "No effect; pyarrow chooses the part size.")
        .define("s3.part.retries", _INT, 3, _MEDIUM, "No effect; there are three attempts.")
        .define("storage.class", _STRING, "", _LOW, "No effect.")
    )
    return _common(own, "io.confluent.connect.s3.format.avro.AvroFormat")


def hdfs() -> ConfigDef:
    own = (
        ConfigDef()
        .define("hdfs.url", _STRING, "", _HIGH, "The address, such as hdfs://namenode:8020.")
        .define("store.url", _STRING, "", _HIGH, "The same under its newer name.")
        .define("logs.dir", _STRING, "logs", _LOW, "Accepted; there is no write-ahead log.")
    )
    return _common(own, "io.confluent.connect.hdfs.avro.AvroFormat")


def local() -> ConfigDef:
    own = ConfigDef().define(
        "store.url",
        _STRING,
        importance=_HIGH,
        documentation="Target: a directory, file://, hdfs://, s3:// or gs://.",
        validator=not_empty,
    )
    return _common(own, "JsonFormat")
