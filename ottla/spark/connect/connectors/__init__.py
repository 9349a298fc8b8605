"""The connectors in the box. `PLUGINS` gives each the names by which configs know it."""

_HERE = "ottla.spark.connect.connectors"

#: Class names as they stand in `connector.class`, and where the class is. Imported only when used.
PLUGINS: dict[str, str] = {
    "org.apache.kafka.connect.file.FileStreamSourceConnector": f"{_HERE}.file_stream:FileStreamSourceConnector",
    "org.apache.kafka.connect.file.FileStreamSinkConnector": f"{_HERE}.file_stream:FileStreamSinkConnector",
}
