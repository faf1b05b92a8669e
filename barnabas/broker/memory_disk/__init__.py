"""A disk of bytes in memory: what a broker without a data directory has, and the faulty disk of the tests."""

from barnabas.broker.memory_disk.disk import MemoryDisk
from barnabas.broker.memory_disk.faults import Faults, Names
from barnabas.broker.memory_disk.file import MemoryFile

__all__ = ["Faults", "MemoryDisk", "MemoryFile", "Names"]
