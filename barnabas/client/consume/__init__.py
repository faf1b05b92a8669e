"""The consumer without I/O: positions, fetches, and from fetched bytes to records and columns."""
