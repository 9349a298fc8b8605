"""Writes topics to Elasticsearch or OpenSearch indices, with the settings of Confluent's sink."""
