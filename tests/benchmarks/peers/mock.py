"""librdkafka's mock cluster in a process of its own; prints its address and serves until SIGTERM.

Arguments are topics, `NAME:PARTITIONS`. The mock is reached through the C library that confluent-kafka brings, because
its Python face cannot create topics on a mock.
"""

from __future__ import annotations

import ctypes
import signal
import sys

from tests.benchmarks.load import librdkafka

_ERROR_BYTES = 512
_PRODUCER = 0


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(librdkafka())
    library.rd_kafka_conf_new.restype = ctypes.c_void_p
    library.rd_kafka_new.restype = ctypes.c_void_p
    library.rd_kafka_new.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
    library.rd_kafka_mock_cluster_new.restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_new.argtypes = [ctypes.c_void_p, ctypes.c_int]
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    library.rd_kafka_mock_cluster_bootstraps.argtypes = [ctypes.c_void_p]
    library.rd_kafka_mock_topic_create.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]
    return library


def main(topics: list[str]) -> None:
    """Serve until SIGTERM."""
    library = _library()
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    handle = library.rd_kafka_new(_PRODUCER, library.rd_kafka_conf_new(), error, _ERROR_BYTES)
    assert handle, error.value
    cluster = library.rd_kafka_mock_cluster_new(handle, 1)
    for topic in topics:
        name, partitions = topic.split(":")
        failed = library.rd_kafka_mock_topic_create(cluster, name.encode(), int(partitions), 1)
        assert not failed, f"mock topic {topic}: error {failed}"
    print(library.rd_kafka_mock_cluster_bootstraps(cluster).decode(), flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    while True:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1:])
