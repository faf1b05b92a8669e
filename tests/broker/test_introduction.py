"""Two brokers that prove to each other that they are of one cluster, and everybody else, who cannot."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.introduction import (
    MECHANISM,
    NONCE_BYTES,
    REQUEST_BYTES_MAX,
    VERSIONS,
    Introduction,
    IntroductionError,
    Reception,
)
from barnabas.protocol.api import key_of
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.kafka import codec
from barnabas.protocol.requests.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.requests.sasl_handshake import SaslHandshakeRequest

SECRET = b"s" * 32
NONCES = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES)
IDS = st.integers(0, 2**31 - 1)


def asker(secret: bytes = SECRET, cluster: str = "ours", node: int = 2, nonce: bytes = b"a" * 32, **more: Any) -> Any:
    return Introduction(secret, cluster, node, nonce, **more)


def answerer(secret: bytes = SECRET, cluster: str = "ours", node: int = 1, nonce: bytes = b"b" * 32) -> Reception:
    return Reception(secret, cluster, node, nonce)


def over_the_wire(message: Any, *, response: bool) -> Any:
    key = key_of(type(message))
    if response:
        data = b"".join(codec.encode_response(key, VERSIONS[key], 1, message))[4:]
        return codec.decode_response(key, VERSIONS[key], data)[1]
    data = b"".join(codec.encode_request(key, VERSIONS[key], 1, "a broker", message))[4:]
    assert len(data) <= REQUEST_BYTES_MAX
    return codec.decode_request(data)[1]


def converse(one: Introduction, other: Reception, change: Any = lambda number, message: message) -> list[Any]:
    """All requests and answers, in turn; `change` may put another message in the place of each (by number)."""
    said: list[Any] = []
    request: Any = one.first()
    while request is not None and not other.refusal:
        request = change(len(said), over_the_wire(request, response=False))
        said.append(request)
        answer = change(len(said), over_the_wire(other.answer(request), response=True))
        said.append(answer)
        request = one.answered(answer)
    return said


@given(st.binary(min_size=16, max_size=80), st.text(max_size=63), IDS, IDS, NONCES, NONCES)
def test_two_brokers_of_one_cluster_know_each_other(
    secret: bytes, cluster: str, mine: int, theirs: int, nonce: bytes, other_nonce: bytes
) -> None:
    one, other = asker(secret, cluster, mine, nonce), answerer(secret, cluster, theirs, other_nonce)
    if mine == theirs:
        with pytest.raises(IntroductionError, match=r"give each broker a node\.id of its own"):
            converse(one, other)
        return
    converse(one, other)
    assert (one.peer, other.peer, other.refusal) == (theirs, mine, "")


def test_the_secret_is_neither_sent_nor_shown() -> None:
    one, other = asker(), answerer()
    said = converse(one, other)
    assert not any(SECRET[:8] in bytes(getattr(message, "auth_bytes", b"")) for message in said)
    assert "ssss" not in f"{one!r} {other!r} {other.refusal}"


@given(st.binary(min_size=16, max_size=40).filter(lambda secret: secret.rstrip(b"\0") != SECRET))
def test_who_has_another_secret_is_refused(secret: bytes) -> None:
    one, other = asker(secret), answerer()
    with pytest.raises(IntroductionError, match=r"broker 2 and does not know the secret; give all brokers"):
        converse(one, other)
    assert one.peer == other.peer == -1
    assert "give all brokers of a cluster the same secret (barnabas.cluster.secret.file)" in other.refusal


def test_one_that_answers_without_knowing_the_secret_is_refused() -> None:
    one = asker()

    def pretend(number: int, message: Any) -> Any:
        return SaslAuthenticateResponse(auth_bytes=bytes(32)) if number == 5 else message

    with pytest.raises(IntroductionError, match="broker 1 does not know the secret of this cluster"):
        converse(one, answerer(), pretend)
    assert one.peer == -1


@given(st.integers(1, 5), st.data())
def test_no_bit_of_what_is_said_may_change(number: int, data: st.DataObject) -> None:
    """Node ids, cluster ids, nonces and proofs: at the latest the last proof does not fit."""
    one, other = asker(), answerer()

    def spoil(at: int, message: Any) -> Any:
        if at == number and hasattr(message, "auth_bytes"):
            spoilt = bytearray(message.auth_bytes)
            bit = data.draw(st.integers(0, len(spoilt) * 8 - 1))
            spoilt[bit // 8] ^= 1 << bit % 8
            message.auth_bytes = bytes(spoilt)
        return message

    if number == 1:  # has no such bytes
        converse(one, other, spoil)
        return
    with pytest.raises(IntroductionError):
        converse(one, other, spoil)
    assert one.peer == -1
    assert number == 5 or other.peer == -1


@given(st.integers(2, 5), st.integers(0, 80))
def test_what_is_cut_short_is_refused(number: int, size: int) -> None:
    one, other = asker(), answerer()

    def cut(at: int, message: Any) -> Any:
        if at == number:
            message.auth_bytes = bytes(message.auth_bytes)[: min(size, len(message.auth_bytes) - 1)]
        return message

    with pytest.raises(IntroductionError):
        converse(one, other, cut)
    assert one.peer == -1
    assert number == 5 or other.peer == -1


@given(NONCES.filter(lambda nonce: nonce != b"b" * 32))
def test_what_was_said_on_an_earlier_connection_counts_no_more(nonce: bytes) -> None:
    said = converse(asker(), answerer())
    other = answerer(nonce=nonce)
    answers = [other.answer(request) for request in said[::2]]
    assert answers[-1].error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert other.peer == -1
    one, replayed = asker(nonce=nonce), iter(said[1::2])
    one.first()
    for _ in range(2):
        assert one.answered(next(replayed)) is not None
    with pytest.raises(IntroductionError, match="does not know the secret"):
        one.answered(next(replayed))


def test_a_proof_that_is_sent_back_to_whom_it_came_from_counts_for_nothing() -> None:
    """Whoever knows no secret may hold up a mirror: nonce, proof and all."""
    one = asker()
    hello = one.answered(_handshake())
    assert hello is not None
    proof = one.answered(SaslAuthenticateResponse(auth_bytes=b"\0\0\0\1" + hello.auth_bytes[-32:]))
    assert proof is not None
    with pytest.raises(IntroductionError, match="does not know the secret"):
        one.answered(SaslAuthenticateResponse(auth_bytes=proof.auth_bytes))


def test_a_connection_back_to_the_asker_gives_no_proof_for_the_first() -> None:
    """A stranger that 1 connects to connects to 1 itself, as broker 2, and passes on what it hears."""
    one, back = asker(node=1, nonce=b"x" * 32), answerer(node=1, nonce=b"y" * 32)
    hello = one.answered(_handshake())
    assert hello is not None
    back.answer(SaslHandshakeRequest(MECHANISM))
    challenge = back.answer(SaslAuthenticateRequest(b"\0\0\0\2\4ours" + hello.auth_bytes[-32:]))
    proof = one.answered(SaslAuthenticateResponse(auth_bytes=b"\0\0\0\2" + challenge.auth_bytes[-32:]))
    assert proof is not None
    assert back.answer(proof).error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert (one.peer, back.peer) == (-1, -1)


def _handshake() -> Any:
    return answerer().answer(SaslHandshakeRequest(MECHANISM))


def test_a_broker_of_another_cluster_is_told_so() -> None:
    one, other = asker(cluster="theirs\n"), answerer()
    with pytest.raises(IntroductionError, match=r"broker 2 is of cluster 'theirs\\n', this one is of 'ours'; give it"):
        converse(one, other)
    assert other.peer == -1


def test_another_broker_than_the_one_that_was_called_is_not_believed() -> None:
    with pytest.raises(IntroductionError, match="broker 1 answers where broker 3 was expected"):
        converse(asker(expected=3), answerer())
    one = asker(expected=1)
    converse(one, answerer())
    assert one.peer == 1


def test_no_broker_has_an_id_below_zero_whatever_it_knows() -> None:
    """Below zero means nobody: a replica id of a client, and a peer that is none."""
    other = answerer()
    with pytest.raises(IntroductionError, match="its hello of 41 bytes is none"):
        converse(asker(node=-2), other)
    assert other.peer == -1
    one = asker()
    with pytest.raises(IntroductionError, match="broker -2 answers where a broker was expected"):
        converse(one, answerer(node=-2))
    assert one.peer == -1


def test_another_mechanism_is_refused_with_the_name_of_ours() -> None:
    other = answerer()
    answer = other.answer(SaslHandshakeRequest("PLAIN"))
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.UNSUPPORTED_SASL_MECHANISM, [MECHANISM])
    assert other.refusal == f"it asks for the SASL mechanism 'PLAIN'; brokers use {MECHANISM} here"
    with pytest.raises(IntroductionError, match="the broker there refuses this one: error 33"):
        asker().answered(answer)


HELLO = b"\0\0\0\2\4ours" + b"a" * 32
REQUESTS = {
    "handshake": SaslHandshakeRequest(MECHANISM),
    "hello": SaslAuthenticateRequest(HELLO),
    "nothing": SaslAuthenticateRequest(b""),
}


@given(st.lists(st.sampled_from(sorted(REQUESTS)), max_size=6))
def test_in_whatever_order_strangers_ask_they_are_nobody(order: list[str]) -> None:
    other = answerer()
    for name in order:
        answer = other.answer(REQUESTS[name])
        assert bool(answer.error_code) == bool(other.refusal)
    assert other.peer == -1
    assert not other.refusal or order[:2] != ["handshake", "hello"] or len(order) > 2


@pytest.mark.parametrize("number", [0, 4])
def test_after_it_is_through_nothing_more_is_taken(number: int) -> None:
    """Neither another beginning, nor the proof that was right."""
    other = answerer()
    said = converse(asker(), other)
    assert other.answer(said[number]).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert other.refusal == "it introduces itself out of order: nothing was to come any more"


@given(st.text(max_size=400))
def test_what_the_other_says_is_told_on_one_line(message: str) -> None:
    with pytest.raises(IntroductionError) as told:
        asker().answered(SaslAuthenticateResponse(58, message))
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 400
