"""A consumer's part in a group, without I/O: who coordinates it, its share of the partitions, what it commits."""
