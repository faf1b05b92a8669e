"""What shows that a broker's process is gone before its session is over: a closed connection, and two refusals.

The system closes what a process had open when it ends, and refuses whoever connects to where it listened. So the
controller, when a connection from a broker ends, knocks at the address where that listens for brokers.

    state      event                                                      next
    none       a connection from an unfenced broker is closed             KNOCKING
    KNOCKING   refused, for the first time                                REFUSED
               refused again                                              GONE: it is to be fenced
               anything else, and another connection was closed meanwhile REFUSED, with no refusal counted
               anything else: accepted, or silence                        none: its session decides
    REFUSED    100 ms later                                               KNOCKING
    GONE       the fence could not be written                             REFUSED, with one refusal counted
    any        a heartbeat, or a registration                             none

A process that is paused accepts, for its system does; a machine without power, or behind a cut, is silent; a program
that has taken over the address accepts: all these wait for the session, and so does a broker that is started again
within 100 ms. A process that ends may close its connections some time before it stops listening, and lets in
meanwhile: a knock that is let in is held for a moment, and repeated where it is hung up on. Who is fenced though it is
there, behind a firewall that refuses, say, is unfenced by its next heartbeat.

Apache Kafka has none of it: its brokers are fenced when their session is over.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

AGAIN_MS: Final = 100
"""From a refusal to the next knock: a broker that is started anew, or a port that is bound again, has this long."""

Knock: TypeAlias = Callable[[int, Callable[[bool], None]], None]
"""`knock(broker_id, done)`: connects to where a broker listens for brokers; `done(refused)`, in a later step."""


class Doubt:
    """What is known so far of a broker, in one of its epochs."""

    __slots__ = ("closed_again", "due_ms", "epoch", "refused")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.refused = False
        self.closed_again = False
        self.due_ms: int | None = None
        """When to knock again; None while a knock is under way, and once all is known."""


class Evidence:
    """The doubts about all brokers. All times are monotonic ms.

    Args:
        knock: how to find out.
        gone: hears of a broker that is, with the doubt that has shown it.
        later: runs a callback at the end of a step, with the time.
    """

    def __init__(
        self,
        knock: Knock,
        gone: Callable[[int, Doubt, int], None],
        later: Callable[[Callable[[int], None]], None],
    ) -> None:
        self._knock = knock
        self._gone = gone
        self._later = later
        self._doubts: dict[int, Doubt] = {}

    def closed(self, broker_id: int, epoch: int) -> None:
        """A connection from an unfenced broker is no more."""
        doubt = self._doubts.get(broker_id)
        if doubt is not None and doubt.epoch == epoch:
            doubt.closed_again = True
            return
        doubt = self._doubts[broker_id] = Doubt(epoch)
        self._ask(broker_id, doubt)

    def alive(self, broker_id: int) -> None:
        """There was a sign of life."""
        self._doubts.pop(broker_id, None)

    def again(self, broker_id: int, due_ms: int) -> None:
        """The fence could not be written: knock once more at `due_ms`, if there was a doubt."""
        if broker_id in self._doubts:
            self._doubts[broker_id].due_ms = due_ms

    def holds(self, broker_id: int, doubt: Doubt) -> bool:
        """Whether nothing was heard of a broker since a doubt began."""
        return self._doubts.get(broker_id) is doubt

    def tick(self, now_ms: int) -> None:
        """Knock where it is time."""
        for broker_id, doubt in self._doubts.items():
            if doubt.due_ms is not None and now_ms >= doubt.due_ms:
                doubt.due_ms = None
                self._ask(broker_id, doubt)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None for never."""
        if not self._doubts:  # nearly always, and it is asked after every event
            return None
        return min((one.due_ms for one in self._doubts.values() if one.due_ms is not None), default=None)

    def _ask(self, broker_id: int, doubt: Doubt) -> None:
        def done(refused: bool) -> None:
            self._later(partial(self._answered, broker_id, doubt, refused))

        self._knock(broker_id, done)

    def _answered(self, broker_id: int, doubt: Doubt, refused: bool, now_ms: int) -> None:
        if not self.holds(broker_id, doubt):
            return
        if refused and doubt.refused:
            self._gone(broker_id, doubt, now_ms)
            return
        if not refused and not doubt.closed_again:
            del self._doubts[broker_id]
            return
        doubt.refused, doubt.closed_again = refused, False
        doubt.due_ms = now_ms + AGAIN_MS
