"""Record batches at speed: kernels that decode and encode, the producer and the partitioner."""
