"""A deterministic world for the shipped broker and client: virtual clocks, a network, disks, faults, and checkers.

Everything that runs in it is what is shipped: cores, hosts and channels, producers and consumers. What is replaced is
what they stand on: the event loop, the clocks, chance, the sockets and the disk (`REPLACED` in `surroundings.py`).
"""
