"""HTTP source and sinks, with the settings of Aiven's and Confluent's connectors."""
