"""Election of the writing node through the consumer group protocol, as in Confluent's registry."""
