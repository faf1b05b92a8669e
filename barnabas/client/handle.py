"""What every client handle is: a thing of the process that made it."""

from __future__ import annotations

from typing import NoReturn


class Handle:
    """A producer, consumer or admin client: it has threads, sockets or a loop, which no other process can be given."""

    def __reduce__(self) -> NoReturn:
        """Refuse `pickle` and `copy`, which pools and Spark's closures come with.

        Raises:
            TypeError: always, as for whatever Python cannot pickle.
        """
        name = type(self).__name__
        raise TypeError(
            f"a {name} belongs to the process that made it and cannot be pickled; make one where it is used"
        )
