"""JSON exactly as Kafka's JsonConverter writes and reads it, byte for byte."""
