"""The producer without I/O: batches, their memory, their partitions, sending them and what became of them."""
