"""Plays extreme requests against a broker over sockets, one connection for each that was closed."""

from __future__ import annotations

import socket
import struct
import time
from dataclasses import dataclass
from random import Random

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import ProtocolError
from barnabas.protocol.kafka import codec as kafka
from barnabas.protocol.native import codec as native
from tests.hostile.extremes import Extreme, extreme

ANSWER_S_MAX = 120.0
"""Against hanging alone: how long an answer takes is the machine's."""


@dataclass
class Played:
    """How many requests were answered, and how many connections closed for theirs."""

    answered: int = 0
    refused: int = 0
    unanswered: int = 0
    """Produce with acks=0: the protocol has no answer for it."""


def play(port: int, seed: int, seconds: float) -> Played:
    """Send one request after the other for so long.

    Raises:
        AssertionError: a request was neither answered nor its connection closed.
    """
    random = Random(seed)
    played = Played()
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        _one(port, extreme(random), played)
    return played


def _one(port: int, one: Extreme, played: Played) -> None:
    with socket.create_connection(("127.0.0.1", port), ANSWER_S_MAX) as peer:
        try:
            peer.sendall((b"BNB1" if one.dialect == "native" else b"") + one.frame)
            if has_no_answer(one):
                peer.shutdown(socket.SHUT_WR)
                played.unanswered += 1
                return
            head = b""
            while len(head) < 4:  # a socket with a timeout may give a part of what it was asked for
                piece = peer.recv(4 - len(head))
                if not piece:
                    played.refused += 1
                    return
                head += piece
            left = struct.unpack(">i", head)[0]
            while left:
                piece = peer.recv(min(left, 1 << 16))
                assert piece, f"an answer was cut short: {one}"
                left -= len(piece)
            played.answered += 1
        except ConnectionError:
            played.refused += 1
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
