"""The network core on asyncio: sockets, name look-ups, one timer."""
