"""Back-off: doubling, jitter of 20 percent, the cap."""

import pytest

from barnabas.net.backoff import Backoff


@pytest.mark.parametrize(
    ("chance", "waits"), [(0.5, [100, 200, 400, 800, 1000, 1000]), (0.0, [80, 160, 320, 640, 800, 800])]
)
def test_it_doubles_with_jitter_up_to_the_cap(chance, waits):
    backoff = Backoff(100, 1000, lambda: chance)
    assert [backoff.wait_ms(attempt) for attempt in range(6)] == pytest.approx(waits, abs=1)


def test_the_cap_holds_with_jitter_and_for_huge_attempts():
    assert Backoff(100, 1000, lambda: 0.999).wait_ms(10**6) == 1000


def test_no_wait_at_all():
    assert Backoff(0, 1000, lambda: 0.5).wait_ms(3) == 0
    assert Backoff(500, 100, lambda: 0.9).wait_ms(0) == 100
