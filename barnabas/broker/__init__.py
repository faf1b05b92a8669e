"""The broker: a synchronous core, and the host that gives it sockets, threads and time."""
