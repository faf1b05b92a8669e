"""The purgatory against plain lists: whatever happens in whatever order, both hold the same operations."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from barnabas.broker.delayed import DelayedOperation, Purgatory, Timer

KEYS = "abcd"
PURGE_INTERVAL = 3


class Numbered(DelayedOperation):
    """Completes when it is told that it is ready."""

    __slots__ = ("ended", "number", "ready")

    def __init__(self, number: int, timeout_ms: int, ready: bool) -> None:
        DelayedOperation.__init__(self, timeout_ms)
        self.number = number
        self.ready = ready
        self.ended = 0

    def try_complete(self, now_ms: int) -> bool:
        return self.ready and self.force_complete(now_ms)

    def on_complete(self, now_ms: int) -> None:
        self.ended += 1


class PurgatoryMachine(RuleBasedStateMachine):
    """`lists` is the model: per key the numbers of the operations, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.purgatory = Purgatory("model", Timer(0), PURGE_INTERVAL)
        self.operations: list[Numbered] = []
        self.lists: dict[str, list[int]] = {}
        self.estimated = 0

    def drop_completed(self, key: str) -> None:
        left = [number for number in self.lists.get(key, []) if not self.operations[number].completed]
        self.lists.pop(key, None)
        if left:
            self.lists[key] = left

    @rule(keys=st.sets(st.sampled_from(KEYS), min_size=1), timeout_ms=st.integers(1, 600), ready=st.booleans())
    def park(self, keys: set[str], timeout_ms: int, ready: bool) -> None:
        operation = Numbered(len(self.operations), timeout_ms, ready)
        self.operations.append(operation)
        asked = tuple(sorted(keys))
        assert self.purgatory.try_complete_else_watch(operation, asked, self.now_ms) is ready
        if not ready:
            self.estimated += 1
            for key in asked:
                self.lists.setdefault(key, []).append(operation.number)

    @rule(at=st.integers(0, 30))
    def make_ready(self, at: int) -> None:
        if self.operations:
            self.operations[at % len(self.operations)].ready = True

    @rule(at=st.integers(0, 30))
    def complete_from_outside(self, at: int) -> None:
        if self.operations:
            operation = self.operations[at % len(self.operations)]
            was_completed = operation.completed
            assert operation.force_complete(self.now_ms) is not was_completed

    @rule(key=st.sampled_from(KEYS))
    def event(self, key: str) -> None:
        expected = sum(
            self.operations[number].ready and not self.operations[number].completed
            for number in self.lists.get(key, [])
        )
        assert self.purgatory.check_and_complete(key, self.now_ms) == expected
        self.drop_completed(key)

    @rule(ms=st.integers(1, 500))
    def time_passes(self, ms: int) -> None:
        self.now_ms += ms
        self.purgatory.advance(self.now_ms)
        if self.estimated - self.purgatory.num_delayed > PURGE_INTERVAL:
            self.purge_model()

    @rule()
    def purge(self) -> None:
        standing = sum(map(len, self.lists.values()))
        self.purge_model()
        assert self.purgatory.purge() == standing - sum(map(len, self.lists.values()))

    def purge_model(self) -> None:
        self.estimated = self.purgatory.num_delayed
        for key in list(self.lists):
            self.drop_completed(key)

    @invariant()
    def the_same_stand_in_the_same_lists(self) -> None:
        shown = {key: [one.number for one in watchers] for key, watchers in self.purgatory.lists().items()}  # type: ignore[attr-defined]
        assert shown == self.lists
        assert self.purgatory.watched == sum(map(len, self.lists.values()))
        assert self.purgatory.estimated_total == self.estimated
        assert self.purgatory.num_delayed == sum(not one.completed for one in self.operations)
        assert all(one.ended == int(one.completed) for one in self.operations)

    @invariant()
    def no_completed_operation_is_kept_that_stands_nowhere(self) -> None:
        standing = {number for numbers in self.lists.values() for number in numbers}
        completed = {number for number in standing if self.operations[number].completed}
        assert {one.number for one in self.purgatory.finished} == completed  # type: ignore[attr-defined]


TestPurgatory = PurgatoryMachine.TestCase
TestPurgatory.settings = settings(max_examples=60, stateful_step_count=40)


class Meddling(Numbered):
    """Does more with the purgatory it stood in while it completes, and while it is asked before it waits."""

    __slots__ = ("asked", "deeds", "nest")

    def __init__(self, nest: Nest, number: int, ready: bool, deeds: list[tuple[str, int]]) -> None:
        Numbered.__init__(self, number, 100, ready)
        self.nest = nest
        self.deeds = deeds
        self.asked = 2 * (number % 2)

    def try_complete(self, now_ms: int) -> bool:
        if self.asked:
            self.asked -= 1
            self.nest.do(self.deeds[:1])
        return Numbered.try_complete(self, now_ms)

    def on_complete(self, now_ms: int) -> None:
        Numbered.on_complete(self, now_ms)
        self.nest.do(self.deeds)
        if self.number % 5 == 4:
            raise RuntimeError("a defect")


class Nest:
    """A purgatory, and deeds that call each other in it."""

    def __init__(self, scripts: list[tuple[bool, list[tuple[str, int]]]]) -> None:
        self.purgatory = Purgatory("nest", Timer(0), PURGE_INTERVAL)
        self.scripts = scripts
        self.operations: list[Meddling] = []
        self.keys: dict[int, list[str]] = {}

    def do(self, deeds: list[tuple[str, int]]) -> None:
        for deed, number in deeds:
            if deed == "event":
                self.purgatory.check_and_complete(KEYS[number % 4], 0)
            elif deed == "purge":
                self.purgatory.purge()
            elif deed == "end" and self.operations:
                with contextlib.suppress(RuntimeError):
                    self.operations[number % len(self.operations)].force_complete(0)
            elif deed == "park" and len(self.operations) < len(self.scripts):
                ready, script = self.scripts[len(self.operations)]
                operation = Meddling(self, len(self.operations), ready, script)
                self.operations.append(operation)
                keys = self.keys[operation.number] = [KEYS[number % 4], KEYS[(number + 1 + number % 3) % 4]]
                with contextlib.suppress(RuntimeError):
                    self.purgatory.try_complete_else_watch(operation, keys, 0)

    def look(self) -> None:
        purgatory = self.purgatory
        lists = purgatory.lists()
        assert all(lists.values()), "no list stays behind empty"
        for operation in self.operations:
            assert operation.ended == int(operation.completed)
            standing = [key for key in self.keys.get(operation.number, []) if operation in lists.get(key, ())]
            if not operation.completed:
                assert standing == self.keys[operation.number], "whoever waits is found under each of its keys"
                assert operation.scheduled
            elif standing:
                assert operation in purgatory.finished, "the purge would pass it over"
            else:
                assert operation not in purgatory.finished
        assert purgatory.num_delayed == sum(not one.completed for one in self.operations)


deeds = st.tuples(st.sampled_from(["event", "park", "purge", "end"]), st.integers(0, 11))


@given(
    st.lists(st.tuples(st.booleans(), st.lists(deeds, max_size=3)), max_size=12),
    st.lists(deeds, min_size=4, max_size=30),
)
@settings(max_examples=300)
def test_operations_that_call_back_into_their_purgatory(
    scripts: list[tuple[bool, list[tuple[str, int]]]], taken: list[tuple[str, int]]
) -> None:
    nest = Nest(scripts)
    for deed in taken:
        nest.do([deed])
        nest.look()
        for operation in nest.operations[::2]:
            operation.ready = True
    nest.purgatory.advance(1000)
    nest.purgatory.purge()
    assert nest.purgatory.lists() == {}
    assert not nest.purgatory.finished
