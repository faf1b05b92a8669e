"""Plays extreme requests against a broker over sockets, one connection for each that was closed."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.native import codec as native
from barnabas.protocol.requests.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.hostile.extremes import TOPICS, Extreme, extreme
from tests.hostile.meter import exchange

ANSWER_S_MAX = 120.0
"""Against hanging alone: how long an answer takes is the machine's."""


@dataclass
class Played:
    """How many requests were answered, and how many connections closed for theirs."""

    answered: int = 0
    refused: int = 0
    unanswered: int = 0
    """Produce with acks=0: the protocol has no answer for it."""


def prepare(port: int) -> None:
    """Make the topics that extreme requests name."""
    new = [
        CreatableTopic(name, 3, 1, configs=[CreatableTopicConfig(key, value) for key, value in settings.items()])
        for name, settings in TOPICS.items()
    ]
    made = kafka.encode_request(ApiKey.CREATE_TOPICS, 7, 1, "hostile", CreateTopicsRequest(new, 60_000))
    with socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX) as peer:
        told = exchange(peer, b"".join(bytes(one) for one in made))
    assert told is not None
    topics = kafka.decode_response(ApiKey.CREATE_TOPICS, 7, memoryview(told[0]))[1].topics
    assert [one.error_code for one in topics] == [0] * len(TOPICS), topics


def play(port: int, seed: int, seconds: float, after: Callable[[Played], None] = lambda played: None) -> Played:
    """Send one request after the other for so long; `after` is called after each.

    Raises:
        AssertionError: a request was neither answered nor its connection closed.
    """
    random = Random(seed)
    played = Played()
    prepare(port)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        one = extreme(random)
        count(played, send(port, one))
        after(played)
    return played


def count(played: Played, ended: str) -> None:
    """Add how a request ended."""
    setattr(played, ended, getattr(played, ended) + 1)


def send(port: int, one: Extreme) -> str:
    """Send a request over a connection of its own: "answered", "refused" (closed without an answer), or "unanswered".

    Raises:
        AssertionError: neither came, or an answer was cut short.
    """
    with socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX) as peer:
        try:
            peer.sendall((b"BNB1" if one.dialect == "native" else b"") + one.frame)
            if has_no_answer(one):
                peer.shutdown(socket.SHUT_WR)
                return "unanswered"
            head = b""
            while len(head) < 4:  # a socket with a timeout may give a part of what it was asked for
                piece = peer.recv(4 - len(head))
                if not piece:
                    return "refused"
                head += piece
            left = struct.unpack(">i", head)[0]
            while left:
                piece = peer.recv(min(left, 1 << 16))
                assert piece, f"an answer was cut short: {one}"
                left -= len(piece)
            return "answered"
        except ConnectionError:
            return "refused"
        except TimeoutError:
            raise AssertionError(f"neither answered nor closed: {one}") from None


def has_no_answer(one: Extreme) -> bool:
    """Whether it is a Produce with acks=0."""
    if one.api_key != ApiKey.PRODUCE:
        return False
    dialect = kafka if one.dialect == "kafka" else native
    try:
        return bool(dialect.decode_request(memoryview(bytearray(one.frame))[4:])[1].acks == 0)
    except ProtocolError:
        return False
