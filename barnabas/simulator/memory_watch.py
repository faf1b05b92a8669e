"""What is looked at of a broker's memory after each of its turns: how much it keeps for others, and for whom."""

from __future__ import annotations

from barnabas.broker.account import UNREAD
from barnabas.broker.node.core import Core
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.history import Held, Tell


class MemoryWatch:
    """Looks at one broker, where something was charged or given back, or a connection came or went."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._seen = (0, 0, 0, 0)

    def look(self, broker: BrokerProcess, core: Core) -> None:
        """A turn is over."""
        assert broker.host is not None
        account, channels, waiting = core.account, broker.host.channels, core.replicas.shared.waiting
        stands = account.total, len(waiting), len(channels), next(reversed(channels), 0)
        if stands == self._seen:
            return
        self._seen = stands
        gone = [one for one in account.by_holder if one > 0 and one not in channels]
        if sum(account.by_holder[one] for one in gone) <= account.by_kind[UNREAD]:
            gone.clear()  # what is being read from the device stays until it is there: no read can be taken back
        gone += [one for one in waiting if one > 0 and one not in channels]
        told = Held(
            broker.name,
            account.total,
            account.limit,
            sum(account.by_kind.values()),
            sum(account.by_holder.values()),
            tuple(gone),
        )
        self._tell(told)
