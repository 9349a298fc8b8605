"""Records to HTTP servers and from them, by the settings of Aiven's and Confluent's connectors."""
