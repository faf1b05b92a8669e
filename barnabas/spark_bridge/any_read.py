"""What neither a stream nor a batch would take is refused when a frame is made, as by Spark's own source.

Spark asks a format for its schema in `load()`, and for a reader not before the query runs: a stream that is started in
a notebook would only be found dead later. In `load()` nobody says yet which of the two it will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.spark_bridge.brokers import client_settings
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.options import Mode, read_options
from barnabas.spark_bridge.process import without_warnings

_MODES: Final[tuple[Mode, ...]] = ("stream", "batch")


def check_for_any_read(given: Mapping[str, str]) -> None:
    """Looks at the options of a read, whatever it will be.

    Raises:
        OptionError: both refuse them, for the same reason.
    """
    if "provider" in given:  # CREATE TABLE: properties of the table, and no read gets them
        return
    refused = []
    with without_warnings():  # the reader says them
        for mode in _MODES:
            try:
                client_settings(read_options(given, mode))
            except OptionError as error:
                refused.append(error)
    if len({str(error) for error in refused}) == 1 and len(refused) == len(_MODES):
        raise refused[0]
