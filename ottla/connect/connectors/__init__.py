"""The built-in connectors. `PLUGINS` lists the names that configs use for them."""

_HERE = "ottla.connect.connectors"

#: Maps names in `connector.class` to import paths. Classes are imported on first use.
PLUGINS: dict[str, str] = {
    **{
        f"com.github.jcustenborder.kafka.connect.spooldir.{name}": f"{_HERE}.spooldir.connector:{name}"
        for name in (
            "SpoolDirCsvSourceConnector",
            "SpoolDirJsonSourceConnector",
            "SpoolDirLineDelimitedSourceConnector",
            "SpoolDirSchemaLessJsonSourceConnector",
        )
    },
    "com.redis.kafka.connect.RedisSinkConnector": f"{_HERE}.redis.connector:RedisSinkConnector",
    "com.github.jcustenborder.kafka.connect.redis.RedisSinkConnector": (
        f"{_HERE}.redis.connector:RedisCacheSinkConnector"
    ),
    "io.aiven.kafka.connect.http.HttpSinkConnector": f"{_HERE}.http.sink:AivenHttpSinkConnector",
    "io.confluent.connect.http.HttpSinkConnector": f"{_HERE}.http.sink:ConfluentHttpSinkConnector",
    "io.confluent.connect.http.HttpSourceConnector": f"{_HERE}.http.source:HttpSourceConnector",
    "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector": (
        f"{_HERE}.elasticsearch.connector:ElasticsearchSinkConnector"
    ),
    "io.aiven.kafka.connect.opensearch.OpensearchSinkConnector": (
        f"{_HERE}.elasticsearch.connector:ElasticsearchSinkConnector"
    ),
    "io.confluent.connect.mqtt.MqttSinkConnector": f"{_HERE}.mqtt.sink:MqttSinkConnector",
    "io.confluent.connect.mqtt.MqttSourceConnector": f"{_HERE}.mqtt.source:MqttSourceConnector",
    "io.confluent.connect.syslog.SyslogSourceConnector": f"{_HERE}.syslog.connector:SyslogSourceConnector",
    "io.confluent.kafka.connect.datagen.DatagenConnector": f"{_HERE}.datagen.connector:DatagenConnector",
    "io.confluent.connect.s3.S3SinkConnector": f"{_HERE}.files.connector:S3SinkConnector",
    "io.confluent.connect.hdfs.HdfsSinkConnector": f"{_HERE}.files.connector:HdfsSinkConnector",
    "io.confluent.connect.hdfs3.Hdfs3SinkConnector": f"{_HERE}.files.connector:HdfsSinkConnector",
    "io.ottla.connect.DeltaSinkConnector": f"{_HERE}.tables.delta:DeltaSinkConnector",
    "io.tabular.iceberg.connect.IcebergSinkConnector": f"{_HERE}.tables.iceberg:IcebergSinkConnector",
    "org.apache.iceberg.connect.IcebergSinkConnector": f"{_HERE}.tables.iceberg:IcebergSinkConnector",
    "io.ottla.connect.FilesSinkConnector": f"{_HERE}.files.connector:FilesSinkConnector",
    "org.apache.kafka.connect.tools.MockSinkConnector": f"{_HERE}.tools.mock:MockSinkConnector",
    "org.apache.kafka.connect.tools.MockSourceConnector": f"{_HERE}.tools.mock:MockSourceConnector",
    "org.apache.kafka.connect.tools.VerifiableSinkConnector": f"{_HERE}.tools.verifiable:VerifiableSinkConnector",
    "org.apache.kafka.connect.tools.VerifiableSourceConnector": f"{_HERE}.tools.verifiable:VerifiableSourceConnector",
    "org.apache.kafka.connect.file.FileStreamSourceConnector": f"{_HERE}.file_stream:FileStreamSourceConnector",
    "org.apache.kafka.connect.file.FileStreamSinkConnector": f"{_HERE}.file_stream:FileStreamSinkConnector",
    "io.confluent.connect.jdbc.JdbcSourceConnector": f"{_HERE}.jdbc.source:JdbcSourceConnector",
    "io.confluent.connect.jdbc.JdbcSinkConnector": f"{_HERE}.jdbc.sink:JdbcSinkConnector",
    "io.debezium.connector.postgresql.PostgresConnector": f"{_HERE}.cdc.postgres.connector:PostgresConnector",
    "io.debezium.connector.mysql.MySqlConnector": f"{_HERE}.cdc.mysql.connector:MySqlConnector",
    "io.debezium.connector.mariadb.MariaDbConnector": f"{_HERE}.cdc.mysql.connector:MariaDbConnector",
}
