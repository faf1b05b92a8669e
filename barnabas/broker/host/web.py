"""HTTP answers under way: one piece between two looks at the sockets, and none while the peer does not read.

At most `ANSWERS_MAX` at once, for a page takes memory until it is read; the administrator's over the local socket are
not counted. Who does not read is ended by `progress.py`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from barnabas.broker.config.listeners import LOCAL
from barnabas.broker.host import http, looking
from barnabas.broker.host.states import LEFT, STALLED

if TYPE_CHECKING:
    from barnabas.broker.host.channel import Channel
    from barnabas.broker.host.host import Host

ANSWERS_MAX: Final = 16
TOLD_EVERY_S: Final = 60.0
NAME_CHARS_MAX: Final = 255
_BUSY: Final = http.Answer(503, http.TEXT, f"{ANSWERS_MAX} answers are under way; ask again later.\n")

logger = logging.getLogger(__name__)


class Web:
    """Pages, the names they are told under, and who is being answered."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pages = looking.pages(host)
        self._busy: dict[str, http.Page] = dict.fromkeys(self._pages, lambda fields: _BUSY)
        self.hosts: frozenset[str] = frozenset()
        self._line: dict[Channel, None] = {}
        self._turn_due = False
        self._under_way: dict[Channel, http.Pieces] = {}
        self._sent_bytes: dict[Channel, int] = {}
        self._told_s = -TOLD_EVERY_S

    def asked(self, channel: Channel, head: bytes) -> bool:
        """Begin the answer to a request; False while its head is not whole."""
        local = channel.connection.listener == LOCAL
        busy = len(self._under_way) >= ANSWERS_MAX and not local
        pages = self._busy if busy else self._pages
        pieces = http.answer(head, pages, None if local else self.hosts, self._unknown)
        if pieces is None:
            return False
        self._under_way[channel] = pieces
        self._sent_bytes[channel] = 0
        self._line[channel] = None
        self._turn_later()
        return True

    def is_answering(self, channel: Channel) -> bool:
        """Whether a page is on its way: what comes behind its request (a body, a second request) is for nobody."""
        return channel in self._under_way

    def _unknown(self, name: str) -> None:
        """Who scrapes by a name that nobody told the broker sees 421, and the operator what to do about it."""
        now_s = self._host.loop.time()
        if now_s - self._told_s >= TOLD_EVERY_S:
            self._told_s = now_s
            logger.warning(
                "HTTP was asked by the name %s, which is refused (421); if it is this broker's: "
                "barnabas.http.hosts=%s, or an advertised listener of that name",
                name[:NAME_CHARS_MAX],
                name[:NAME_CHARS_MAX],
            )

    def go_on(self, channel: Channel) -> None:
        """The next piece; nothing happens for who is not being answered, or does not read."""
        pieces = self._under_way.get(channel)
        if pieces is None or channel.waits & STALLED:
            return
        piece = None if channel.waits & LEFT else next(pieces, None)
        if piece is None:
            self.forget(channel)
            channel.close()
            return
        self._sent_bytes[channel] += len(piece)
        if piece:
            channel.send([piece])
            channel.flush()
        self._line[channel] = None
        self._turn_later()

    def _turn_later(self) -> None:
        """One piece between two looks at the sockets, whoever it is for."""
        if self._line and not self._turn_due:
            self._turn_due = True
            self._host.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._turn_due = False
        if self._line:
            channel = next(iter(self._line))
            del self._line[channel]
            self.go_on(channel)
        self._turn_later()

    def moved_bytes(self, channel: Channel) -> int | None:
        """What the peer has read of its answer; None when it is not being answered."""
        sent = self._sent_bytes.get(channel)
        if sent is None:
            return None
        left = 0 if channel.rest is None else channel.rest.left_bytes
        return sent - left - channel.transport.get_write_buffer_size()

    def forget(self, channel: Channel) -> None:
        """It is gone, or answered."""
        self._under_way.pop(channel, None)
        self._line.pop(channel, None)
        self._sent_bytes.pop(channel, None)
