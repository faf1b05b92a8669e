"""A small writer of Python source, and the errors of the functions made with it.

Every line carries the field it works on, so that an error of the generated function names the field from the line it
was raised at: the hot path pays nothing for good messages.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from barnabas.protocol.errors import EncodeError, NotUtf8, ProtocolError
from barnabas.protocol.primitives import VarintError, read_uvarint, uvarint


class Source:
    """Lines of one function, the names it uses, and the field behind each line."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.names: dict[str, Any] = {
            "new": object.__new__,
            "read_uvarint": read_uvarint,
            "uvarint": uvarint,
            "pack": struct.pack,
            "unpack_from": struct.unpack_from,
            "StructError": struct.error,
            "VarintError": VarintError,
            "refused": self._refused,
            "short": self._short,
            "too_long": self._too_long,
            "too_many": self._too_many,
            "null": self._null,
            "lacks": self._lacks,
            "unfit": self._unfit,
            "wrong_tag_size": self._wrong_tag_size,
        }
        self._lines: list[str] = []
        self._fields: list[str] = []
        self._indent = 0
        self._temps = 0

    def line(self, text: str, field: str = "") -> None:
        """One line at the current depth."""
        self._lines.append("    " * self._indent + text)
        self._fields.append(field)

    @contextmanager
    def block(self, head: str, field: str = "") -> Iterator[None]:
        """`head` and an indented body."""
        self.line(head, field)
        self._indent += 1
        lines = len(self._lines)
        yield
        if len(self._lines) == lines:
            self.line("pass")
        self._indent -= 1

    def temp(self, prefix: str) -> str:
        """A local name used nowhere else."""
        self._temps += 1
        return f"{prefix}{self._temps}"

    def constant(self, value: Any, prefix: str = "k") -> str:
        """A name for a value that the function uses."""
        for name, known in self.names.items():
            if known is value:
                return name
        name = self.temp(prefix.upper() + "_")
        self.names[name] = value
        return name

    def format(self, codes: str, method: str) -> str:
        """A name for `pack` or `unpack_from` of a precompiled big-endian format."""
        name = f"{method}_{codes.replace('?', 'z')}"
        if name not in self.names:
            self.names[name] = getattr(struct.Struct(">" + codes), method)
        return name

    def build(self, name: str) -> Any:
        """Compile the lines and hand out the function `name`."""
        code = compile("\n".join(self._lines) + "\n", f"<{self.what}>", "exec")
        exec(code, self.names)  # noqa: S102 - the source is made of our own field tables, never of input
        return self.names[name]

    def _field_at(self, exc: BaseException) -> str:
        assert exc.__traceback__ is not None
        return self._fields[exc.__traceback__.tb_lineno - 1]

    def _refused(self, exc: Exception, position: int, size: int) -> ProtocolError:
        where = f"{self.what}: {self._field_at(exc)} at byte {position} of {size}"
        if isinstance(exc, UnicodeDecodeError):
            return NotUtf8(f"{where} is not UTF-8 ({exc.reason})")
        if isinstance(exc, VarintError):
            return ProtocolError(f"{where}: {exc}")
        return ProtocolError(f"{where}: the bytes end within it")

    def _short(self, field: str, count: int, position: int, size: int) -> ProtocolError:
        left = size - position
        return ProtocolError(f"{self.what}: {field} announces {count} at byte {position}, {left} bytes are left")

    def _too_long(self, size: int, allowed: int) -> ProtocolError:
        return ProtocolError(f"{self.what}: it has {size} bytes, {allowed} are allowed; ask for less at a time")

    def _too_many(self, field: str, count: int, position: int, allowed: int) -> ProtocolError:
        return ProtocolError(
            f"{self.what}: with {count} of {field} at byte {position} it has more than {allowed} array elements and "
            "tagged fields; ask for fewer at a time"
        )

    def _null(self, field: str, position: int) -> ProtocolError:
        return ProtocolError(f"{self.what}: {field} is null at byte {position}, where null is not allowed")

    def _wrong_tag_size(self, field: str, announced: int, used: int) -> ProtocolError:
        return ProtocolError(f"{self.what}: tagged field {field} announces {announced} bytes and holds {used}")

    def _lacks(self, field: str, value: object) -> EncodeError:
        return EncodeError(f"{self.what} cannot carry {field}={value!r}: leave its default, or use another version")

    def _unfit(self, exc: Exception) -> EncodeError:
        return EncodeError(f"{self.what}: {self._field_at(exc)} cannot be written: {exc}")
