"""The connectors in the box. `PLUGINS` gives each the names by which configs know it."""

_HERE = "ottla.spark.connect.connectors"

#: Class names as they stand in `connector.class`, and where the class is. Imported only when used.
PLUGINS: dict[str, str] = {
    "io.confluent.connect.jdbc.JdbcSourceConnector": f"{_HERE}.jdbc.source:JdbcSourceConnector",
    "io.confluent.connect.jdbc.JdbcSinkConnector": f"{_HERE}.jdbc.sink:JdbcSinkConnector",
}
