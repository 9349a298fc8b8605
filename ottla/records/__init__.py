"""Fast kernels that decode and encode record batches, with the producer and the partitioner."""
