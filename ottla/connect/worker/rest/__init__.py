"""The REST API of a worker, with the paths, status codes and messages of Kafka's."""
