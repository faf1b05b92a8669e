"""What `barnabas broker` reads before it starts."""

from __future__ import annotations

from pathlib import Path

from barnabas.broker.__main__ import parser, settings


def test_a_file_as_windows_editors_save_it(tmp_path: Path) -> None:
    """A byte order mark is no part of the first setting's name, nor a carriage return of a value."""
    file = tmp_path / "with spaces" / "server.properties"
    file.parent.mkdir()
    file.write_bytes(b"\xef\xbb\xbfnum.partitions=5\r\nlog.retention.hours = 5\r\n")
    config = settings(parser().parse_args(["--config", str(file)])).config
    assert (config.num_partitions, config.log_retention_hours) == (5, 5)
