"""What columns need, and how it is had: numpy and pyarrow are imported by those who use them."""

from __future__ import annotations

from typing import Final

from barnabas.protocol.errors import BarnabasError

MISSING_EXTRA: Final = "columns need numpy and pyarrow: run pip install '.[arrow]' in a checkout of Barnabas"


def require_libraries() -> None:
    """Import what columns need.

    Raises:
        BarnabasError: numpy or pyarrow is absent.
    """
    try:
        import numpy as np  # noqa: F401
        import pyarrow as pa  # noqa: F401
    except ImportError as error:
        raise BarnabasError(MISSING_EXTRA) from error
