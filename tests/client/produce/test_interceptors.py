"""The interceptor chain: order, isolation, construction."""

import logging

import pytest

from barnabas.client.produce.interceptors import Interceptors, ProducerInterceptor
from barnabas.client.produce.records import ProducerRecord
from barnabas.net.errors import ConfigError


class Adds(ProducerInterceptor):
    def __init__(self, what="."):
        self.what = what

    def on_send(self, record):
        record.value += self.what
        return record


class Breaks(ProducerInterceptor):
    def on_send(self, record):
        raise RuntimeError("boom")

    def on_acknowledgement(self, metadata, error):
        raise RuntimeError("boom")


def test_the_chain_runs_in_order_and_a_broken_link_is_skipped(caplog):
    chain = Interceptors.of([Adds("a"), Breaks(), Adds("b"), Adds])
    with caplog.at_level(logging.ERROR):
        assert chain.on_send(ProducerRecord("t", "")).value == "ab."
        chain.on_acknowledgement(None, None)
        chain.close()
    assert len([1 for record in caplog.records if record.message.startswith("interceptor ")]) == 2


def test_what_is_no_interceptor_is_refused():
    assert not Interceptors.of(())
    with pytest.raises(ConfigError, match="has no on_send"):
        Interceptors.of([object()])
