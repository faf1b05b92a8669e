"""The whole broker, put together: one core without sockets, threads, clocks or chance."""
