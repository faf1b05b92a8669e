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


def test_a_job_that_is_ended_lets_go_at_once_and_has_no_further_step() -> None:
    queue, taken, let_go = JobQueue(lambda: None), list[str](), list[str]()
    gate = Gate()

    def holding(name: str) -> Job[None]:
        try:
            yield from counting(name, 1, taken)
            yield from wait(gate)
            yield from counting(name, 1, taken)
        finally:
            let_go.append(name)

    def noting(name: str) -> Callable[[Exception | None], None]:
        return lambda _: taken.append(f"{name} ended")

    ends = {name: queue.add(name, holding(name), noting(name)) for name in "abc"}
    queue.step()
    ends["b"]()  # in line; not begun, it holds nothing
    run(queue)
    ends["a"]()  # it waits
    assert (taken, let_go) == (["a", "c"], ["a"])
    gate.open()
    run(queue)
    assert (taken, let_go) == (["a", "c", "c", "c ended"], ["a", "c"])
    ends["c"]()
    ends["a"]()
    assert len(queue) == 0


def test_a_job_cannot_be_ended_from_within_its_step() -> None:
    queue, taken, ends = JobQueue(lambda: None), list[str](), list[Callable[[], None]]()

    def ending() -> Job[None]:
        ends[0]()
        taken.append("went on")
        yield None

    ends.append(queue.add("a", ending(), lambda _: taken.append("ended")))
    run(queue)
    assert taken == ["went on", "ended"]
