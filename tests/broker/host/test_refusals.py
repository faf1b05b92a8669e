"""A line for the first faults of an address, a count for the rest."""

from __future__ import annotations

import logging

import pytest

from barnabas.broker.host.refusals import ADDRESS_LINES_MAX, ADDRESSES_MAX, LINES_MAX, Refusals


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name.startswith("barnabas")]


async def test_the_first_faults_of_an_address_are_told_and_the_rest_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "barnabas")
    refusals = Refusals()
    for number in range(1000):
        refusals.tell("10.0.0.1", f"fault {number}")
    refusals.tell("10.0.0.2", "another")
    assert lines(caplog) == [*(f"fault {number}" for number in range(ADDRESS_LINES_MAX)), "another"]
    caplog.clear()
    refusals.sum_up()
    assert lines(caplog) == ["995 more lines as these of 10.0.0.1 in the last minute, the last: fault 999"]
    caplog.clear()
    refusals.tell("10.0.0.1", "a new period")
    assert lines(caplog) == ["a new period"]
    refusals.close()


async def test_many_addresses_write_few_lines_and_take_little_memory(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "barnabas")
    refusals = Refusals()
    for number in range(5 * ADDRESSES_MAX):
        refusals.tell(str(number), "fault")
    assert len(lines(caplog)) == LINES_MAX
    assert len(refusals._counts) == ADDRESSES_MAX
    caplog.clear()
    refusals.sum_up()
    assert len(lines(caplog)) == 21
    assert lines(caplog)[-1] == "4930 more lines as these of other addresses in the last minute"
    assert refusals._timer is None
