"""The buffer pool: what is kept, who is served first, and that nothing leaks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.produce.buffer_pool import BufferPool


def make(total=100, poolable=10):
    return BufferPool(total, poolable)


def test_only_buffers_of_batch_size_are_kept_for_reuse():
    pool = make()
    kept, other = pool.try_allocate(10), pool.try_allocate(15)
    pool.deallocate(kept)
    pool.deallocate(other)
    assert pool.available_bytes == 100
    assert pool.try_allocate(10) is kept
    assert pool.try_allocate(15) is not other


def test_kept_buffers_are_released_when_a_larger_request_needs_their_memory():
    pool = make()
    held = [pool.try_allocate(10) for _ in range(10)]
    for buffer in held:
        pool.deallocate(buffer)
    assert len(pool.try_allocate(95)) == 95
    assert pool.available_bytes == 5
    assert pool.try_allocate(10) is None


def test_more_than_the_whole_memory_is_a_mistake():
    with pytest.raises(ValueError, match=r"more than buffer\.memory"):
        make().try_allocate(101)


def test_waiters_are_served_first_come_first_served():
    pool = make()
    all_of_it = pool.try_allocate(100)
    order = []
    big = pool.wait(60, lambda: order.append("big"))
    small = pool.wait(5, lambda: order.append("small"))
    assert pool.try_allocate(1) is None
    pool.deallocate(all_of_it)
    assert order == ["big", "small"]
    assert (len(big.buffer), len(small.buffer)) == (60, 5)


def test_a_small_request_does_not_overtake_a_large_one():
    pool = make()
    tens = [pool.try_allocate(10) for _ in range(10)]
    order = []
    pool.wait(25, lambda: order.append("big"))
    late = pool.wait(10, lambda: order.append("small"))
    pool.deallocate(tens.pop())
    assert order == []
    assert pool.try_allocate(10) is None  # nor does one who never waited
    pool.deallocate(tens.pop())
    pool.deallocate(tens.pop())
    assert order == ["big"]
    pool.deallocate(tens.pop())
    assert order == ["big", "small"]
    assert len(late.buffer) == 10


def test_who_gives_up_hands_on_what_was_reserved():
    pool = make()
    tens = [pool.try_allocate(10) for _ in range(10)]
    order = []
    first = pool.wait(25, lambda: order.append("first"))
    second = pool.wait(20, lambda: order.append("second"))
    pool.deallocate(tens.pop())
    pool.deallocate(tens.pop())
    pool.give_up(first)
    assert order == ["second"]
    pool.give_up(second)  # it had its buffer already: it goes back
    assert pool.available_bytes == 20


def test_a_buffer_that_comes_back_twice_is_noticed():
    pool = make()
    buffer = pool.try_allocate(10)
    pool.deallocate(buffer)
    with pytest.raises(AssertionError):
        pool.deallocate(buffer)


@given(st.lists(st.tuples(st.sampled_from(["take", "free", "wait", "quit"]), st.integers(1, 40)), max_size=60))
def test_no_byte_is_lost_or_made(steps):
    pool = make()
    held, waiting = [], []
    for what, size in steps:
        if what == "take":
            buffer = pool.try_allocate(10 if size > 30 else size)
            if buffer is not None:
                held.append(buffer)
        elif what == "free" and held:
            pool.deallocate(held.pop(size % len(held)))
        elif what == "wait":
            waiting.append(pool.wait(size, lambda: None))
        elif what == "quit" and waiting:
            pool.give_up(waiting.pop(size % len(waiting)))
        assert 0 <= pool.available_bytes <= pool.total_bytes
    for waiter in waiting:
        pool.give_up(waiter)
    for buffer in held:
        pool.deallocate(buffer)
    assert pool.available_bytes == pool.total_bytes
    assert not pool.waiters


def test_what_was_reserved_comes_back_when_a_kept_buffer_serves_the_waiter():
    """A waiter for a whole buffer had set aside what was unused, and was then given one that came back whole."""
    pool = make()
    tens = [pool.try_allocate(10) for _ in range(9)]
    assert pool.try_allocate(6) is not None
    waiter = pool.wait(10, lambda: None)
    assert (waiter.buffer, pool.available_bytes) == (None, 0)  # the 4 that were left are reserved
    kept = tens.pop()
    pool.deallocate(kept)
    assert waiter.buffer is kept
    assert pool.available_bytes == 4
