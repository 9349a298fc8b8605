"""Topics as indices of Elasticsearch or OpenSearch, by the settings of Confluent's sink."""
