"""A broker goes, and what waited for it alone goes on: of many partitions in bounded steps."""

from __future__ import annotations

from itertools import pairwise

from tests.broker.replica.world import P, World


def test_where_many_high_watermarks_rise_others_go_on_between_them():
    """All who wait for it are asked, which is what takes time: a thousand of them in one step were 40 ms and more."""
    world = World()
    keys = [P(number) for number in range(200)]
    for key in keys:
        world.host(key, replicas=(1, 2, 3))
    answers = [world.produce(key) for key in keys]
    world.caught_up(2, *keys, wait_ms=0)
    for key in keys:
        world.host(key, isr=(1, 2))
    assert not any(answer.there for answer in answers)  # 3 may join any time
    jobs = []
    world.manager.shared.run = lambda job, ended: jobs.append(job)
    world.cluster.dead.add(3)
    world.manager.lives.changed(world.now_ms)
    (job,) = jobs
    told = [0, *(sum(answer.there for answer in answers) for _ in job)]
    told.append(sum(answer.there for answer in answers))
    assert told[-1] == len(keys)
    assert max(after - before for before, after in pairwise(told)) <= 50
