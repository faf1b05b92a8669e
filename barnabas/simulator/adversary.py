"""Does the faults of a plan: to brokers, to their machines, and to the ways between all machines."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from barnabas.protocol.ids import TopicPartition
from barnabas.simulator import faults
from barnabas.simulator.broker import BrokerProcess
from barnabas.simulator.brokers import Brokers
from barnabas.simulator.faults import Fault
from barnabas.simulator.history import Decided, Flipped, PowerLost, Tell, Voted
from barnabas.simulator.members import Member
from barnabas.simulator.network import Network
from barnabas.simulator.plan import TOPIC
from barnabas.simulator.world import MS, World

_OF_A_PROCESS: Final = (
    faults.KILL,
    faults.KILLS,
    faults.POWER,
    faults.FLIP,
    faults.STOP,
    faults.PAUSE,
    faults.DIRECTORY,
)
_OF_POWER: Final = frozenset({faults.POWER, faults.BLACKOUT})
_KILLS: Final = 4
_KILL_AGAIN_MS_MAX: Final = 40
_BACK_MS_MAX: Final = 3000
_SLOW_MS: Final = (300, 1500, 3000)
_LEAST: Final = 5
"""Of all that is planned so much happens, later if need be."""
_MADE_UP: Final = (75, 90, 99)
"""When it is seen to that it does, in hundredths of the time that there is."""
_LATER_MS: Final = 500


class Adversary:
    """Does the faults of a plan.

    Args:
        brokers: whom they hit.
        clients: the addresses of all clients.
        members: those of them that are in a group.
        tell: hears of each loss of power.
        synced: every acknowledged record was synced, so that power may fail anywhere and at any time. Else it fails
            where all replicas have all that was acknowledged: one of them at a time loses some of it.
    """

    def __init__(
        self,
        world: World,
        network: Network,
        brokers: Brokers,
        clients: list[str],
        members: list[Member],
        tell: Tell,
        *,
        synced: bool,
    ) -> None:
        self._world = world
        self._network = network
        self._brokers = brokers
        self._clients = clients
        self._members = members
        self._tell = tell
        self._synced = synced
        self._healed = False
        self._waiting: list[Fault] = []
        self._passed_over: list[Fault] = []
        self._done = 0
        self._has_flipped = False
        """Whether a bit was another, and not all were in sync since: who comes back without proof may not lead then."""
        self._isrs: dict[TopicPartition, tuple[str, ...]] = {}
        self._deeds: dict[str, Callable[[Fault, BrokerProcess], None]] = {
            faults.KILL: self._kill,
            faults.KILLS: self._kills,
            faults.POWER: self._power,
            faults.FLIP: self._flip,
            faults.BLACKOUT: self._blackout,
            faults.STOP: self._stop,
            faults.PAUSE: self._pause,
            faults.CUT: self._cut,
            faults.CUT_TO: self._cut,
            faults.CUT_FROM: self._cut,
            faults.SPLIT: self._cut,
            faults.SPLIT_TO: self._cut,
            faults.SPLIT_FROM: self._cut,
            faults.RESET: self._reset,
            faults.SLOW: self._slow,
            faults.SLOW_TO: self._slow_ways,
            faults.SLOW_FROM: self._slow_ways,
            faults.SLOW_DISK: partial(self._slow_disk, 50),
            faults.STUCK_DISK: partial(self._slow_disk, 1000),
            faults.FULL: self._full,
            faults.JUMP: self._jump,
            faults.DIRECTORY: self._directory,
        }

    def plan(self, planned: list[Fault], duration_ms: int) -> None:
        """Have them happen when their time comes."""
        for fault in planned:
            begin = self._wait if fault.waits else self._begin
            self._world.at(fault.at_ms * MS, partial(begin, fault))
        for part in _MADE_UP:
            late_ms = duration_ms * part // 100
            later = sum(1 for one in planned if one.at_ms >= late_ms and not one.waits)
            self._world.at(late_ms * MS, partial(self._make_up, later))

    def _make_up(self, later: int) -> None:
        """What waited in vain, and what found nobody to hit, happens now where too little has happened so far."""
        lacking = _LEAST - self._done - later
        some = [*self._waiting, *self._passed_over][: max(lacking, 0)]
        self._waiting, self._passed_over = (
            [one for one in those if one not in some] for those in (self._waiting, self._passed_over)
        )
        for fault in some:
            self._begin(fault, insists=True)

    def _wait(self, fault: Fault) -> None:
        self._waiting.append(fault)

    def answered(self, connection: str) -> None:
        """A broker has answered who had something written, on that connection."""
        if self._waiting:
            name = connection.partition(".")[0]
            ready = [one for one in self._waiting if one.on_answer and not one.on_isr]
            self._begin_now([one for one in ready if self._is(one, name)])

    def decided(self, event: Decided) -> None:
        """The controller has decided something of a partition."""
        before = self._isrs.get(event.partition, event.isr)
        self._isrs[event.partition] = event.isr
        if self._waiting and before != event.isr:
            mine = [one for one in self._waiting if one.on_isr and self._is(one, event.leader)]
            self._begin_now([one for one in mine if not one.on_answer])
            self._waiting = [one._replace(on_isr=False) if one in mine else one for one in self._waiting]

    def _is(self, fault: Fault, name: str) -> bool:
        """Whether a fault is to hit that broker."""
        return self._brokers[fault.node or self._brokers.active].name == name

    def voted(self, event: Voted) -> None:
        """A controller has given another one its vote, and its answer is on its way."""
        if self._waiting and event.voter != event.candidate:
            (node,) = [one.node_id for one in self._brokers.all if one.name == event.voter]
            some = [one for one in self._waiting if one.on_vote]
            self._waiting = [one for one in self._waiting if not one.on_vote]
            for fault in some:
                self._world.count("faults that hit who has voted")
                self._world.after(0, partial(self._begin, fault._replace(node=node)))

    def _begin_now(self, some: list[Fault]) -> None:
        self._waiting = [one for one in self._waiting if one not in some]
        for fault in some:
            self._world.after(0, partial(self._begin, fault))

    def heal(self) -> None:
        """End all that is wrong: ways are open, disks are quick and have room, all brokers run."""
        self._healed = True
        self._world.note("all is healed")
        self._network.heal()
        for broker in self._brokers.all:
            broker.device.fill(full=False)
            broker.mend_directory()
            broker.device.slow = 1
            broker.resume()
            self._start(broker)
        for member in self._members:
            member.resume()
            member.restart()

    def _begin(self, fault: Fault, *, insists: bool = False) -> None:
        """Where it finds nobody to hit it is tried again, if somebody insists, and passed over else; flips are few."""
        if self._healed:
            return
        if fault.kind in faults.KINDS_OF_MEMBERS:
            self._note(fault, str(fault.node))
            self._hit(self._members[fault.node], fault)
            return
        broker = self._brokers[fault.node or self._brokers.active]
        if self._can_hit(fault, broker):
            self._note(fault, broker.name)
            self._deeds[fault.kind](fault, broker)
        elif insists or fault.kind == faults.FLIP:
            self._world.after(_LATER_MS * MS, partial(self._begin, fault, insists=insists))
        else:
            self._world.count("losses that would be beyond the model", fault.kind in _OF_POWER and broker.runs)
            self._passed_over.append(fault)

    def _can_hit(self, fault: Fault, broker: BrokerProcess) -> bool:
        if fault.kind == faults.FLIP:
            return broker.runs and self._brokers.in_sync
        if (fault.kind == faults.STOP and broker.stops) or (fault.kind in _OF_A_PROCESS and not broker.runs):
            return False
        if self._brokers.in_sync:
            self._has_flipped = False
            return True
        return not (fault.kind in _OF_POWER and (self._has_flipped or not self._synced))

    def _note(self, fault: Fault, whom: str) -> None:
        self._done += 1
        self._world.note(f"fault: {fault.kind} for {fault.for_ms} ms at {whom}")
        self._world.count(f"fault: {fault.kind}")

    def _hit(self, member: Member, fault: Fault) -> None:
        if fault.kind == faults.PAUSE_MEMBER:
            member.pause()
            self._after(fault, member.resume)
        else:
            member.kill()
            self._after(fault, member.restart)

    def _after(self, fault: Fault, call: Callable[[], None]) -> None:
        def later() -> None:
            if not self._healed:
                call()

        self._world.after(fault.for_ms * MS, later)

    def _count_if_early(self, broker: BrokerProcess) -> None:
        core = broker.core
        self._world.count("ends while it recovers", core is not None and not core.ready)

    def _start(self, broker: BrokerProcess) -> None:
        if not broker.runs and not broker.device.faults.broken:
            broker.start()

    def _kill(self, fault: Fault, broker: BrokerProcess) -> None:
        self._count_if_early(broker)
        broker.kill()
        self._after(fault, partial(self._start, broker))

    def _kills(self, fault: Fault, broker: BrokerProcess) -> None:
        """Again and again, while it recovers."""
        chance = self._world.chance(f"kills at {fault.at_ms}")

        def again(left: int) -> None:
            if self._healed or not broker.runs:
                return
            self._count_if_early(broker)
            broker.kill()
            if left:
                self._start(broker)
                self._world.after(chance.randrange(_KILL_AGAIN_MS_MAX * MS), partial(again, left - 1))
            else:
                self._after(fault, partial(self._start, broker))

        again(_KILLS)

    def _power(self, fault: Fault, broker: BrokerProcess) -> None:
        self._count_if_early(broker)
        broker.lose_power()
        self._tell(PowerLost(broker.name, self._synced))
        self._after(fault, partial(self._start, broker))

    def _flip(self, fault: Fault, broker: BrokerProcess) -> None:
        """What a start does not believe is this replica's loss, as what a power failure takes is."""
        self._kill(fault, broker)
        self._has_flipped = True
        chance = self._world.chance(f"flip at {fault.at_ms}")
        path = broker.device.flip_in_the_last(chance, TOPIC)
        broker.flipped = bool(path)
        self._world.note(f"a bit of {path} at {broker.name} is another")
        self._tell(Flipped(broker.name))

    def _blackout(self, fault: Fault, broker: BrokerProcess) -> None:
        """Each is back at a time of its own."""
        chance = self._world.chance(f"blackout at {fault.at_ms}")
        for one in self._brokers.all:
            if one.runs:
                self._power(fault._replace(for_ms=fault.for_ms + chance.randrange(_BACK_MS_MAX)), one)

    def _stop(self, fault: Fault, broker: BrokerProcess) -> None:
        def ended() -> None:
            self._world.count("clean stops")
            if self._healed:
                self._start(broker)
            else:
                self._after(fault, partial(self._start, broker))

        broker.resume()
        broker.stop(ended)

    def _pause(self, fault: Fault, broker: BrokerProcess) -> None:
        broker.pause()
        self._after(fault, broker.resume)

    def _cut(self, fault: Fault, broker: BrokerProcess) -> None:
        """Of every peer by chance: some still reach the broker."""
        chance, here = self._world.chance(f"cut at {fault.at_ms}"), broker.machine.host
        others = [host for host in self._brokers.hosts if host != here]
        peers = self._clients if fault.kind.startswith(faults.CUT) else others
        for peer in [peer for peer in peers if chance.randrange(2)] or peers:
            if not fault.kind.endswith(" from"):
                self._network.cut(peer, here)
            if not fault.kind.endswith(" to"):
                self._network.cut(here, peer)
        self._after(fault, self._network.heal)

    def _reset(self, fault: Fault, broker: BrokerProcess) -> None:
        self._world.count("connections reset", self._network.reset(broker.machine.host))

    def _slow(self, fault: Fault, broker: BrokerProcess) -> None:
        self._network.slow = 50
        self._after(fault, self._network.heal)

    def _slow_ways(self, fault: Fault, broker: BrokerProcess) -> None:
        """To it from all other brokers, or from it to some of them."""
        chance, here = self._world.chance(f"slow ways at {fault.at_ms}"), broker.machine.host
        longest_ms = chance.choice(_SLOW_MS)
        others = [host for host in self._brokers.hosts if host != here]
        if fault.kind == faults.SLOW_TO:
            ways = [(peer, here) for peer in others]
        else:
            ways = [(here, peer) for peer in chance.sample(others, chance.randint(1, len(others)))]
        self._network.slow_ways |= dict.fromkeys(ways, longest_ms * MS)
        self._after(fault, self._network.heal)

    def _slow_disk(self, times: int, fault: Fault, broker: BrokerProcess) -> None:
        broker.device.slow = times
        self._after(fault, partial(setattr, broker.device, "slow", 1))

    def _full(self, fault: Fault, broker: BrokerProcess) -> None:
        broker.device.fill(full=True)
        self._after(fault, partial(broker.device.fill, full=False))

    def _directory(self, fault: Fault, broker: BrokerProcess) -> None:
        """Every write, read and sync fails: the broker ends once it has found out, and begins when that is over."""
        broker.fail_directory()

        def mended() -> None:
            broker.mend_directory()
            self._start(broker)

        self._after(fault, mended)

    def _jump(self, fault: Fault, broker: BrokerProcess) -> None:
        broker.machine.clock.jump(fault.jump_ms)
