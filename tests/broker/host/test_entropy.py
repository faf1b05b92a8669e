"""Numbers from the operating system: within bounds, each of them possible; uuids as Kafka makes them."""

from __future__ import annotations

import os
from collections import Counter

import pytest

from barnabas.broker.host.entropy import SystemEntropy


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 8, 9])
def test_below_gives_every_number_under_the_bound_about_as_often(bound: int) -> None:
    drawn = Counter(SystemEntropy().below(bound) for _ in range(400 * bound))
    assert sorted(drawn) == list(range(bound))
    assert all(200 < times < 600 or bound == 1 for times in drawn.values())


@pytest.mark.parametrize(
    ("bound", "bits", "number"),
    [
        (256, [b"\x7f\x80"], 255),  # nine bits, taken from the top of two bytes
        (257, [b"\x80\x80", b"\x80\x00"], 256),  # 257 is not below 257: drawn again
        (2**31 - 1, [b"\xff\xff\xff\xff", b"\xff\xff\xff\xfd"], 2**31 - 2),
    ],
)
def test_below_uses_as_many_bits_as_the_bound_has(
    monkeypatch: pytest.MonkeyPatch, bound: int, bits: list[bytes], number: int
) -> None:
    drawn = iter(bits)
    monkeypatch.setattr("os.urandom", lambda size: next(drawn))
    assert SystemEntropy().below(bound) == number


def test_below_nothing_there_is_no_number() -> None:
    with pytest.raises(AssertionError):
        SystemEntropy().below(0)


def test_a_uuid_is_of_version_4_and_no_dash_begins_its_text() -> None:
    for raw in (SystemEntropy().uuid() for _ in range(1000)):
        assert (raw[6] >> 4, raw[8] >> 6) == (4, 2)
        assert raw[0] >> 2 != 62


def test_uuids_are_all_different_and_the_system_is_asked_for_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    system = os.urandom

    def counted(size: int) -> bytes:
        asked.append(size)
        return system(size)

    monkeypatch.setattr("os.urandom", counted)
    entropy = SystemEntropy()
    assert len({entropy.uuid() for _ in range(1000)}) == 1000
    assert len(asked) < 50, "a member of a group waits for each"
    assert max(asked) <= 1024
