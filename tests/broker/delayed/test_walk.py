from __future__ import annotations

import pytest

from barnabas.broker.delayed.walk import render_wheel, walk


def test_the_printed_walk_of_450():
    assert render_wheel(450) == (
        "The wheels, 20 buckets each:\n"
        "  wheel 1  tick      1 ms  spans [0,20)\n"
        "  wheel 2  tick     20 ms  spans [0,400)\n"
        "  wheel 3  tick    400 ms  spans [0,8000)\n"
        "\n"
        "t = 0        a task due at 450 is added       clocks 0/0/0                    "
        "-> wheel 3, bucket 1, which expires at 400\n"
        "t = 400      bucket 400 expires               clocks 400/400/400              "
        "-> wheel 2, bucket 2, which expires at 440\n"
        "t = 440      bucket 440 expires               clocks 440/440/400              "
        "-> wheel 1, bucket 10, which expires at 450\n"
        "t = 450      bucket 450 expires               clocks 450/440/400              -> due: it runs\n"
        "\n"
        "2 demotions, 3 buckets queued in all; no queue ever held the task itself.\n"
    )


def test_a_task_due_at_once_needs_no_bucket():
    assert "0 buckets queued" in render_wheel(0)
    assert walk(0)[0].level == 0


def test_a_task_is_demoted_at_most_once_per_level():
    steps = walk(64_000_001, start_ms=77)
    levels = [step.level for step in steps]
    assert levels == sorted(levels, reverse=True)
    assert len(set(levels)) == len(levels)
    assert steps[-1].now_ms == 64_000_001 + 77


@pytest.mark.parametrize("delay_ms", [-1, 20**20])
def test_a_senseless_delay_is_refused(delay_ms):
    with pytest.raises(ValueError, match="from 0 up"):
        render_wheel(delay_ms)
