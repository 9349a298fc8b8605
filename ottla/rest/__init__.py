"""The REST proxy: Kafka over HTTP, with Confluent's paths (v2 and v3), and streams of records besides.

It is a client like any other, so it works with Apache Kafka too.

- `settings`: kafka-rest.properties under Confluent's names
- `clients`: the connections to the cluster, those of the proxy or those of the user who asks
- `formats`: records in JSON ↔ bytes
- `produce`, `consumers`, `streams`: what is behind the routes
- `v2`, `v3/`: the routes
- `server`: all of it together
"""
