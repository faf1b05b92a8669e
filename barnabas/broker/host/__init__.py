"""The host: the one place of the broker with sockets, threads, clocks and randomness."""
