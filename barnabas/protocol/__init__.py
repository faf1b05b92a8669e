"""Values and bytes: the request vocabulary, its two dialects, record batches. Pure functions, no I/O."""
