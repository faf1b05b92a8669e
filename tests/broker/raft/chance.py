"""A quorum under whatever may happen, drawn from a seed: crashes, cuts, losses, snapshots; then it heals.

python -m tests.broker.raft.chance FIRST END    plays the seeds from FIRST to before END, and tells what was reached
"""

from __future__ import annotations

import logging
import sys
from collections import Counter

from barnabas.broker.raft.raft import Role, Timing
from tests.broker.raft.quorum import Quorum


def hunt(quorum: Quorum, steps: int, reached: Counter[str]) -> None:
    """Every leader crashes soon after its election, with records that few have."""
    random = quorum.random
    for _ in range(steps // 4):
        for _ in range(100):
            leading = [one for one in sorted(quorum.lives) if quorum.lives[one].raft.role is Role.LEADER]
            if leading:
                break
            quorum.run(50)
        for one in leading:
            if random.random() < 0.8:
                quorum.propose(quorum.lives[one])
            quorum.run(random.choice((1, 10, 50, 100, 300)))
            quorum.crash(one)
            reached["crashes"] += 1
        dead = [one for one in quorum.voters if one not in quorum.lives]
        while dead and len(dead) * 2 > len(quorum.voters) - random.randrange(2):
            quorum.start(dead.pop(random.randrange(len(dead))))


def play(seed: int, *, steps: int = 60, kind: type[Quorum] = Quorum) -> Counter[str]:
    """One seed, and what was reached.

    Raises:
        Violation: something was seen that must never be.
    """
    quorum = kind(*((1, 2, 3) if seed % 3 else (1, 2, 3, 4, 5)), seed=seed)
    random = quorum.random
    quorum.loss = random.choice((0.0, 0.02, 0.2))
    quorum.disk_ms = {one: random.choice((5, 40, 400)) for one in quorum.voters}
    quorum.records_max = random.choice((1, 8))
    quorum.delay_ms_max = random.choice((5, 60, 600))
    reached: Counter[str] = Counter()
    if seed % 4 == 2:  # hasty voters, who crash when they have given their vote
        quorum.timing, quorum.forgets, quorum.delay_ms_max = Timing(60, 2000, 60), 0.5, 20
        for one in quorum.voters:
            quorum.restart(quorum.lives[one])
    if seed % 2:
        hunt(quorum, steps, reached)
        steps = 0
    for _ in range(steps):
        what = random.random()
        alive = sorted(quorum.lives)
        dead = [one for one in quorum.voters if one not in quorum.lives]
        leading = [one for one in alive if quorum.lives[one].raft.role is Role.LEADER]
        if what < 0.15 and alive:
            one = random.choice(leading) if leading and random.random() < 0.5 else random.choice(alive)
            quorum.crash(one)
            reached["crashes"] += 1
        elif what < 0.35 and dead:
            quorum.start(random.choice(dead))
        elif what < 0.5:
            one, other = random.sample(quorum.voters, 2)
            quorum.cut ^= {(one, other) if seed % 8 == 4 else frozenset((one, other))}
        elif what < 0.55:
            quorum.cut.clear()
        elif what < 0.62 and alive:
            quorum.lives[random.choice(alive)].log.compact()
        elif what < 0.65 and leading:
            quorum.lives[random.choice(leading)].raft.resign(quorum.now_ms)
            reached["resignations"] += 1
        else:
            for one in leading:
                for _ in range(random.randrange(4)):
                    quorum.propose(quorum.lives[one])
        quorum.run(random.choice((1, 10, 100, 1000, 3000)))
    quorum.cut.clear()
    quorum.loss, quorum.delay_ms_max, quorum.disk_ms, quorum.forgets = 0.0, 5, {}, 0.0
    for one in quorum.voters:
        if one not in quorum.lives:
            quorum.start(one)
    quorum.until(lambda: quorum.leader is not None)
    assert quorum.leader is not None
    quorum.propose(quorum.leader)
    quorum.until(lambda: quorum.agreed)
    reached["epochs"] = len({entry.epoch for entry in quorum.committed})
    reached["committed"] = len(quorum.committed)
    reached["acknowledged"] = len(quorum.acknowledged)
    return reached + quorum.reached


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    total: Counter[str] = Counter()
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        try:
            total += play(number)
        except AssertionError as seen:
            sys.exit(f"seed {number}: {seen}")
    print(", ".join(f"{count} {what}" for what, count in sorted(total.items())))
