"""The REST proxy: Kafka over HTTP, with Confluent's paths (v2 and v3), plus streams of records.

As an ordinary client it works with Apache Kafka, too.

- `settings`: kafka-rest.properties under Confluent's names
- `clients`: connections to the cluster, shared by the proxy or per user
- `formats`: records in JSON ↔ bytes
- `produce`, `consumers`, `streams`: implementation of the routes
- `v2`, `v3/`: the routes
- `server`: the proxy as a whole
"""
