"""How long brokers may be away: told once, and one sentence at the end. Time is an argument."""

from __future__ import annotations

import pytest

from barnabas.net.errors import Disconnected
from barnabas.spark_bridge.errors import OptionError
from barnabas.spark_bridge.options import read_options
from barnabas.spark_bridge.patience import BrokersAway, Patience, shown

REFUSED = Disconnected("connection refused")


def test_it_is_said_once_and_ends_with_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    patience = Patience("host:9092", 120_000, 5_000)
    for now_ms in range(5_000, 125_000, 200):
        patience.missed(REFUSED, now_ms, "reading orders-0 at offset 5")
    assert caplog.messages == [
        "reading orders-0 at offset 5: host:9092 gives no answer (connection refused): "
        "waiting for up to 2m (option brokerTimeout)"
    ]
    with pytest.raises(BrokersAway) as raised:
        patience.missed(REFUSED, 125_000, "reading orders-0 at offset 5")
    assert str(raised.value) == (
        "reading orders-0 at offset 5: host:9092 gave no answer for 2m: connection refused. "
        "Start the broker and then the query again, mend kafka.bootstrap.servers, or raise the option brokerTimeout "
        "(2m); for brokers that answer late raise kafka.default.api.timeout.ms"
    )


def test_who_answered_may_be_away_again_for_as_long(caplog: pytest.LogCaptureFixture) -> None:
    patience = Patience("host:9092", 1_000, 5_000)
    patience.answered(0)
    for round_ms in (10_000, 20_000):
        patience.missed(REFUSED, round_ms)
        patience.missed(REFUSED, round_ms + 900)
        assert patience.away
        patience.answered(round_ms + 950)
        assert not patience.away
    said = [text.removeprefix("host:9092 ")[:12] for text in caplog.messages]
    assert said == ["gives no ans", "answers agai"] * 2


def test_who_answers_late_is_given_more_time() -> None:
    """Six seconds for an answer are no absence, though five are for the first question."""
    patience = Patience("host:9092", 120_000, 5_000)
    given = []
    for round_ms in range(0, 100_000, 20_000):
        given.append(patience.answer_ms)
        patience.missed(REFUSED, round_ms)
    assert given == [5_000, 10_000, 20_000, 40_000, 80_000]
    assert patience.answer_ms == 120_000, "as long as it may take at all"
    patience.answered(100_000, 12_000)
    assert patience.answer_ms == 24_000, "the next one may take as long"
    patience.answered(100_000, 1)
    assert patience.answer_ms == 24_000, "a quick answer to one question says nothing of the others"
    patience.missed(REFUSED, 200_000)
    patience.answered(201_000, 3)
    assert patience.answer_ms == 5_000, "it had been away, and is as quick as before"


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [(0, "0ms"), (999, "999ms"), (1_000, "1s"), (7_230, "7.2s"), (60_000, "1m"), (90_000, "90s")],
)
def test_times_are_shown_as_options_spell_them(duration_ms: int, text: str) -> None:
    assert shown(duration_ms) == text


def test_the_option_is_a_time() -> None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "a"}
    assert read_options(given, "stream").away_ms_max == 120_000
    assert read_options({**given, "brokerTimeout": "90s"}, "batch").away_ms_max == 90_000
    with pytest.raises(OptionError, match="brokerTimeout: 'soon' is no time: write 500ms, 30s"):
        read_options({**given, "brokerTimeout": "soon"}, "stream")
