"""What goes wrong in a run: a plan that is drawn from its seed. How each fault is done stands in `adversary`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final, NamedTuple

KILL, KILLS, POWER, STOP, PAUSE = "kill", "kills", "power", "stop", "pause"
CUT, CUT_TO, CUT_FROM, RESET, SLOW = "cut", "cut to", "cut from", "reset", "slow"
FULL, JUMP, DIRECTORY = "full", "jump", "directory fails"
SPLIT, SPLIT_TO, SPLIT_FROM, SLOW_DISK = "split", "split to", "split from", "slow disk"
"""`cut`: between a broker and clients; `split`: between it and other brokers."""
KILL_MEMBER, PAUSE_MEMBER = "kill member", "pause member"
"""Of a group; `node` is its number among them, from 0."""
BLACKOUT = "blackout"
"""The power of all brokers fails at once, and comes back to each at its own time."""
FLIP = "flip"
"""A process is killed, and before it is back a bit of what it wrote last is another."""
SLOW_TO, SLOW_FROM = "slow to", "slow from"
"""Ways from other brokers, or to them, take long; those the other way do not."""
STUCK_DISK = "stuck disk"
"""What is asked of it in threads waits for seconds."""

KINDS: Final = (KILL, KILLS, POWER, POWER, STOP, PAUSE, CUT, CUT_TO, CUT_FROM, RESET, SLOW, FULL, JUMP)
KINDS_OF_SEVERAL: Final = (
    *KINDS,
    KILL,
    POWER,
    PAUSE,
    SPLIT,
    SPLIT,
    SPLIT_TO,
    SPLIT_FROM,
    SLOW_DISK,
    BLACKOUT,
    DIRECTORY,
)
RESTARTS: Final = frozenset({KILL, KILLS, POWER, STOP, BLACKOUT, DIRECTORY, FLIP})
_ON_ANSWER: Final = frozenset({KILL, POWER, BLACKOUT, PAUSE, CUT, CUT_FROM, SPLIT, SPLIT_FROM})
"""What may begin with an answer."""
KINDS_OF_STORIES: Final = (SLOW_TO, SLOW_FROM, FLIP, STUCK_DISK)
"""What stories alone have."""
KINDS_OF_MEMBERS: Final = (KILL_MEMBER, PAUSE_MEMBER)
_OF_THE_ACTIVE: Final = (KILL, POWER, STOP, PAUSE, SPLIT, SPLIT_TO, SPLIT_FROM, SLOW_DISK)
_ON_VOTE: Final = (KILL, POWER, BLACKOUT, BLACKOUT, PAUSE)
ACTIVE: Final = 0
"""For a broker's number: the active controller's of that moment."""
_JUMP_MS_MAX: Final = 7_200_000
_BURST_MS: Final = 2500
_STORY_MS: Final = 5000
_LATE: Final = {
    "replica.lag.time.max.ms": "800",
    "replica.fetch.wait.max.ms": "500",
    "broker.session.timeout.ms": "9000",
}


class Fault(NamedTuple):
    """One fault: when it begins, what it is, how long it lasts, how far a clock jumps, and which broker it hits.

    `on_answer`: it begins with the next answer from then on by which the broker says that it has written something,
    while that is on its way: what it says counts. `on_isr`: with the next change of the ISR of a partition that it
    leads, which it does not know yet. Both: first that change, and then an answer, so that it knows. `on_vote`: with
    the next vote that any controller gives, and hits that one.
    """

    at_ms: int
    kind: str
    for_ms: int
    jump_ms: int = 0
    on_answer: bool = False
    node: int = 1
    on_isr: bool = False
    on_vote: bool = False

    @property
    def waits(self) -> bool:
        """Whether it begins with something else than its time."""
        return self.on_answer or self.on_isr or self.on_vote


def draw_faults(chance: random.Random, duration_ms: int, brokers: int, *, synced: bool) -> list[Fault]:
    """At least five faults; in one run of two they come in bursts, for what breaks a promise is seldom one alone.

    `synced`: whatever was acknowledged was synced. Else a broker that stands alone keeps its power, and several lose it
    one at a time.
    """
    kinds = list(KINDS if brokers == 1 else KINDS_OF_SEVERAL)
    if not synced:
        kinds = [kind for kind in kinds if kind != BLACKOUT and (brokers > 1 or kind != POWER)]
    latest_ms = max(duration_ms - _BURST_MS, 1001)
    bursts = [chance.randrange(1000, latest_ms) for _ in range(chance.choice((0, 0, 2, 4)))]
    faults = []
    for _ in range(chance.randrange(5, 13)):
        kind = chance.choice(kinds)
        for_ms = chance.choice((chance.randrange(20, 300), chance.randrange(300, 8000)))
        jump_ms = chance.randint(-_JUMP_MS_MAX, _JUMP_MS_MAX) if kind == JUMP else 0
        on_answer = kind in _ON_ANSWER and chance.randrange(4) > 0
        at_ms = chance.choice(bursts) + chance.randrange(_BURST_MS) if bursts else chance.randrange(1000, duration_ms)
        node = 1 if brokers == 1 else chance.randrange(brokers) + 1
        on_isr = kind in _ON_ANSWER and not on_answer and brokers > 1
        faults.append(Fault(at_ms, kind, for_ms, jump_ms, on_answer, node, on_isr))
    return sorted(faults)


class Story(NamedTuple):
    """Faults that belong together, and the settings under which they come to what they are for."""

    faults: list[Fault]
    settings: dict[str, str]

    def told(self, others: list[Fault], duration_ms: int) -> list[Fault]:
        """It and all others; what would begin in the midst of it begins behind it."""
        begin_ms = self.faults[0].at_ms
        moved = [
            one._replace(at_ms=min(one.at_ms + _STORY_MS, duration_ms - 1))
            if begin_ms <= one.at_ms < begin_ms + _STORY_MS
            else one
            for one in others
        ]
        return sorted([*moved, *self.faults])


def draw_story(chance: random.Random, duration_ms: int, brokers: int) -> Story:
    """A few faults that belong together, as chance alone seldom has them.

    doubt    one loses its power, or a bit, and before anybody knows another is killed: what becomes of the first one's
             place?
    short    a leader is killed, and who comes next leads for a moment: nobody hears what is written there
    behind   one is late, and out of the ISR; its leader commits without it, and is gone before it has told of it
    late     what a leader has sent comes when another leads

    The first broker is in none of them, for somebody has to decide meanwhile.
    """
    one, other = chance.sample(range(2, brokers + 1), 2)
    at_ms = chance.randrange(1000, max(duration_ms - 2 * _BURST_MS, 1001))
    soon_ms, long_ms = at_ms + chance.randrange(30, 600), chance.randrange(2000, 9000)
    story = chance.randrange(4)
    if story == 0:
        loss, back_ms = chance.choice((POWER, FLIP)), chance.randrange(500, 3000)
        return Story([Fault(at_ms, loss, back_ms, node=one), Fault(soon_ms, KILL, long_ms, node=other)], {})
    if story == 1:
        cut = chance.choice((SPLIT, SPLIT_FROM))
        gone = Fault(at_ms, KILL, chance.randrange(300, 3000), node=one)
        return Story([gone, Fault(at_ms, cut, long_ms, node=other, on_isr=True)], {})
    if story == 2:
        late = [Fault(at_ms, SLOW_TO, long_ms, node=one), Fault(at_ms, SLOW_FROM, long_ms, node=other)]
        gone = Fault(soon_ms, KILL, long_ms, on_answer=True, node=other, on_isr=True)
        return Story([*late, gone], _LATE)
    gone = Fault(soon_ms + chance.randrange(1000), KILL, chance.randrange(300, 3000), node=one)
    return Story([Fault(at_ms, SLOW_FROM, long_ms, node=one), gone], {"replica.lag.time.max.ms": "30000"})


def draw_apart(chance: random.Random, duration_ms: int, brokers: int) -> Story:
    """A leader's disk is stuck for long, and a follower is away meanwhile.

    A request one of whose batches is looked through apart waits for a thread. What else it holds is committed
    meanwhile, and has an ISR below the minimum by the time that the answer is made: NOT_ENOUGH_REPLICAS_AFTER_APPEND.
    Nothing else leads to it for long enough, here or in Apache Kafka: a high watermark stands still below the minimum,
    and whoever waits for it is asked as it rises.

    The first broker is in none of it: it is the only controller, whose disk is to keep what it decides.
    """
    at_ms = chance.randrange(1000, max(duration_ms - 2 * _STORY_MS, 1001))
    one, other = chance.sample(range(2, brokers + 1), 2)
    stuck = Fault(at_ms, STUCK_DISK, 2 * _STORY_MS, node=one)
    away = Fault(at_ms + _STORY_MS - chance.randrange(1500), KILL, _STORY_MS, node=other)
    return Story([stuck, away], {"compression.type": "zstd", "min.insync.replicas": "3"})


def draw_unclean(chance: random.Random, duration_ms: int, nodes: Sequence[int]) -> Story:
    """Of two replicas one is killed, then the other, which leads alone meanwhile; the first is back before it."""
    first, other = chance.sample(list(nodes), 2)
    at_ms = chance.randrange(2 * _STORY_MS, max(duration_ms - 4 * _BURST_MS, 2 * _STORY_MS + 1))
    alone_ms, away_ms = chance.randrange(1000, 4000), chance.randrange(500, 2000)
    gone = Fault(at_ms, KILL, alone_ms + away_ms, node=first)
    return Story([gone, Fault(at_ms + alone_ms, KILL, away_ms + chance.randrange(2000, 6000), node=other)], {})


def draw_member_faults(chance: random.Random, duration_ms: int, members: int) -> list[Fault]:
    """What happens to members of a group: some end and come again, some stand still for longer than their session."""
    return [
        Fault(chance.randrange(1000, duration_ms), kind, chance.randrange(100, 9000), node=chance.randrange(members))
        for kind in chance.choices(KINDS_OF_MEMBERS, k=chance.randrange(1, 6))
    ]


def draw_quorum_faults(chance: random.Random, duration_ms: int, *, synced: bool) -> list[Fault]:
    """What happens to active controllers, and to those who have just voted for another one."""
    on_vote = [kind for kind in _ON_VOTE if synced or kind != BLACKOUT]
    faults = []
    for _ in range(chance.randrange(5)):
        at_ms, for_ms = chance.randrange(1000, duration_ms), chance.choice((20, 300, 2000, 8000))
        faults.append(Fault(at_ms, chance.choice(_OF_THE_ACTIVE), chance.randrange(for_ms, 2 * for_ms), node=ACTIVE))
        if chance.randrange(2):
            kind = chance.choice(on_vote)
            faults.append(Fault(at_ms, kind, chance.randrange(20, 1000), node=ACTIVE, on_vote=True))
    return faults
