"""A log foresees how far its active segment grows, and rolls just where one that asks at every append does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.config import TopicConfig
from barnabas.broker.log import Log
from tests.broker.log.harness import NOW, PARTITION, TOPIC_ID, World, append

SETTINGS = st.fixed_dictionaries(
    {
        "segment_bytes": st.sampled_from((400, 600, 5000)),
        "segment_ms": st.sampled_from((50, 200, 10_000)),
        "segment_jitter_ms": st.sampled_from((0, 20)),
        "index_interval_bytes": st.sampled_from((0, 150)),
        "segment_index_bytes": st.sampled_from((48, 96, 1200)),
    }
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 250), st.integers(-1, 80)),
        st.tuples(st.just("configure"), SETTINGS),
        st.tuples(st.just("cut"), st.integers(1, 5)),
        st.tuples(st.just("roll")),
    ),
    min_size=10,
    max_size=60,
)


class Asking(Log):
    """It foresees nothing."""

    __slots__ = ()

    def _foresee(self, active: object, config: object) -> None:
        pass


def played(kind: type[Log], settings, steps):
    """The bases of the segments after each step, and how many appends found them as they were foreseen."""
    world = World("memory", None)
    disk = world.disk
    log = kind(disk, str(PARTITION), PARTITION, TOPIC_ID, TopicConfig(**settings))
    log.open_new(NOW)
    bases, sure, now_ms = [], 0, NOW
    for name, *values in steps:
        if name == "append":
            size, step_ms = values
            now_ms += max(step_ms, 0)
            sure += log._sure_bytes > log.active.size
            append(log, b"x" * size, timestamps=[-1 if step_ms < 0 else now_ms], now_ms=now_ms)
        elif name == "configure":
            log.configure(TopicConfig(**values[0]))
        elif name == "cut":
            log.truncate_to(max(log.log_end_offset - values[0], 0))
        else:
            log.roll(now_ms)
        bases.append(list(log.bases))
    return bases, sure


@given(SETTINGS, STEPS)
def test_a_log_rolls_where_one_that_asks_at_every_append_does(settings, steps):
    asked, never = played(Asking, settings, steps)
    assert never == 0
    assert played(Log, settings, steps)[0] == asked


def test_nearly_every_append_of_a_long_segment_was_foreseen():
    settings = {"segment_bytes": 100_000, "index_interval_bytes": 150}
    bases, sure = played(Log, settings, [("append", 100, 1)] * 100)
    assert bases[-1] == [0]
    assert sure > 95


def foreseeing(**settings) -> Log:
    """A log that is sure of its next appends, of 168 bytes and a ms each."""
    log = World("memory", None).new_log(index_interval_bytes=0, **settings)
    for ms in range(3):
        append(log, b"x" * 100, timestamps=[NOW + ms])
    assert log._sure_bytes > log.active.size + 200
    return log


def test_new_settings_are_asked_at_the_next_append():
    log = foreseeing()
    log.configure(TopicConfig(segment_bytes=log.active.size + 10))
    assert append(log, b"x" * 100, timestamps=[NOW + 4]).rolled


@pytest.mark.parametrize("end", [lambda log: log.roll(NOW + 10), lambda log: log.truncate_to(0)])
def test_what_was_foreseen_of_a_segment_is_not_believed_of_the_next(end):
    """Its first record is older than the first one was, so its time is over earlier."""
    log = foreseeing(segment_ms=1000)
    end(log)
    append(log, b"x", timestamps=[NOW - 900])
    assert not append(log, b"x", timestamps=[NOW + 100]).rolled
    assert append(log, b"x", timestamps=[NOW + 101]).rolled


def test_the_jitter_is_foreseen():
    settings = {"segment_ms": 1000, "segment_jitter_ms": 900, "index_interval_bytes": 0}
    steps = [("append", 1, 1)] * 1100
    bases, _ = played(Log, settings, steps)
    assert 0 < bases[-1][1] < 1000
    assert bases == played(Asking, settings, steps)[0]
