"""Jobs take their steps in turn; a start comes before all others."""

from __future__ import annotations

from collections.abc import Callable

from barnabas.broker.jobs import Gate, Job, wait
from barnabas.broker.node.jobs import JobQueue


def counting(name: str, steps: int, taken: list[str]) -> Job[None]:
    for _ in range(steps):
        taken.append(name)
        yield None


def run(queue: JobQueue, until: Callable[[], bool] = lambda: False) -> None:
    while not until() and queue.step():
        pass


def test_jobs_take_their_steps_in_turn() -> None:
    queue, taken = JobQueue(lambda: None), list[str]()
    for name in "ab":
        queue.add(name, counting(name, 2, taken))
    run(queue)
    assert taken == ["a", "b", "a", "b"]


def test_all_others_wait_for_one_that_is_first() -> None:
    """Logs were recovered in a third of the steps while others' large requests had two, each ten times as long."""
    queue, taken = JobQueue(lambda: None), list[str]()
    gate = Gate()

    def start() -> Job[None]:
        yield from counting("start", 2, taken)
        yield from wait(gate)
        yield from counting("start", 2, taken)

    queue.add("request", counting("request", 4, taken))
    queue.add("start", start(), first=True)
    run(queue, lambda: taken.count("request") == 2)
    assert taken == ["start", "start", "request", "request"], "what waits for the disk is out of the way"
    gate.open()
    run(queue)
    assert taken[4:] == ["start", "start", "request", "request"]
