"""The REST API of a worker, with the paths, codes and messages of Kafka's."""
