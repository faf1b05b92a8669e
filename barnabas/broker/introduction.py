"""How two brokers prove to each other that they are of one cluster, before anything else is said between them.

Both know the cluster's secret, and neither sends it. Who connects, the *asker*, sends three requests; nothing is
believed before the last answer. The frames are those of SASL (KIP-152), the mechanism is our own:

    SaslHandshake      the mechanism's name                     its name
    SaslAuthenticate   hello: node id, cluster id, nonce        challenge: node id, nonce
    SaslAuthenticate   the asker's proof                        the answerer's proof

    hello       node_id i32 | length u8, cluster id in UTF-8 | nonce, 32 bytes
    challenge   node_id i32 | nonce, 32 bytes
    proof       HMAC-SHA256(secret, role | asker's id i32 | answerer's id i32 | length u8, cluster id | both nonces)

The role keeps a proof from being sent back to whom it came from, the nonces keep one of an earlier connection from
counting again, and the asker proves first, so that whoever knows no secret is given nothing to try secrets on. What
follows is neither encrypted nor signed: who can change packets between two brokers is not kept out.
"""

from __future__ import annotations

import hmac
from enum import Enum
from struct import Struct, error
from typing import Any, Final

from barnabas.protocol.api import ApiKey
from barnabas.protocol.errors import BarnabasError, ErrorCode
from barnabas.protocol.ids import Buffer
from barnabas.protocol.requests.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from barnabas.protocol.requests.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

MECHANISM: Final = "BARNABAS-HMAC-SHA256"
VERSIONS: Final = {ApiKey.SASL_HANDSHAKE: 1, ApiKey.SASL_AUTHENTICATE: 2}
"""At which its requests are sent, whatever else a release speaks: nothing is known of the other one yet. Earlier ones
would do as well."""
NONCE_BYTES: Final = 32
SECRET_BYTES_MIN: Final = 16
CLUSTER_ID_BYTES_MAX: Final = 255
REQUEST_BYTES_MAX: Final = 1024
"""Of a frame until both are known to each other: a hello with the longest cluster id has less than 400."""

_ASKS: Final = b"barnabas broker asks"
_ANSWERS: Final = b"barnabas broker answers"
# node_id i32 | cluster id length u8
_HELLO: Final = Struct(">iB")
_NODE_ID: Final = Struct(">i")

_SAME_SECRET: Final = "give all brokers of a cluster the same secret (barnabas.cluster.secret.file)"  # noqa: S105


class IntroductionError(BarnabasError):
    """Two brokers that do not go together: says which, why, and what to do."""


class _Side:
    """What both sides know: who this broker is, the secret, and the nonce that it has chosen."""

    __slots__ = ("_cluster_id", "_node_id", "_nonce", "_secret", "peer")

    def __init__(self, secret: bytes, cluster_id: str, node_id: int, nonce: bytes) -> None:
        assert len(nonce) == NONCE_BYTES
        self._secret = secret
        self._cluster_id = cluster_id.encode()
        self._node_id = node_id
        self._nonce = nonce
        self.peer = -1
        """The other broker's node id, once it has proved that it is of this cluster."""
        if len(self._cluster_id) > CLUSTER_ID_BYTES_MAX:
            raise IntroductionError(f"the cluster id has {len(self._cluster_id)} bytes, {CLUSTER_ID_BYTES_MAX} fit")

    def _proof(self, role: bytes, asker: int, answerer: int, nonces: bytes) -> bytes:
        ids = _NODE_ID.pack(asker) + _HELLO.pack(answerer, len(self._cluster_id)) + self._cluster_id
        return hmac.digest(self._secret, role + ids + nonces, "sha256")


class Introduction(_Side):
    """The side that connects.

    Send `first()`, then what each `answered` gives, until that is None: the other is `peer` then.

    Args:
        secret: the cluster's.
        cluster_id: this broker's.
        node_id: this broker's.
        nonce: 32 bytes that were never used before.
        expected: the node id that must answer at this address; -1 where whoever is of this cluster may.
    """

    __slots__ = ("_challenged", "_expected", "_handshaken", "_other", "_other_nonce")

    def __init__(self, secret: bytes, cluster_id: str, node_id: int, nonce: bytes, expected: int = -1) -> None:
        super().__init__(secret, cluster_id, node_id, nonce)
        self._expected = expected
        self._handshaken = self._challenged = False
        self._other = -1
        self._other_nonce = b""

    @property
    def ends(self) -> bool:
        """Whether what was given last is the last: this broker's proof. What is sent behind it is read after it."""
        return self._challenged

    def first(self) -> SaslHandshakeRequest:
        """What to send first."""
        return SaslHandshakeRequest(MECHANISM)

    def answered(self, response: Any) -> SaslAuthenticateRequest | None:
        """What to send next; None once the other has proved itself, too.

        Raises:
            IntroductionError: the other refuses, or is not of this cluster. The connection is of no use.
        """
        if response.error_code:
            raise IntroductionError(f"the broker there refuses this one: {_told(response)}")
        if not self._handshaken:
            self._handshaken = True
            hello = _HELLO.pack(self._node_id, len(self._cluster_id)) + self._cluster_id + self._nonce
            return SaslAuthenticateRequest(hello)
        if not self._challenged:
            self._challenged = True
            return SaslAuthenticateRequest(self._prove(bytes(response.auth_bytes)))
        expected = self._proof(_ANSWERS, self._node_id, self._other, self._nonce + self._other_nonce)
        if not hmac.compare_digest(expected, bytes(response.auth_bytes)):
            raise IntroductionError(f"broker {self._other} does not know the secret of this cluster; {_SAME_SECRET}")
        self.peer = self._other
        return None

    def _prove(self, challenge: bytes) -> bytes:
        size = _NODE_ID.size + NONCE_BYTES
        if len(challenge) != size:
            raise IntroductionError(f"its challenge has {len(challenge)} bytes instead of {size}")
        (self._other,) = _NODE_ID.unpack_from(challenge)
        self._other_nonce = challenge[_NODE_ID.size :]
        if self._other < 0 or self._expected not in (-1, self._other):
            wanted = "a broker" if self._expected < 0 else f"broker {self._expected}"
            raise IntroductionError(f"broker {self._other} answers where {wanted} was expected; look at its listeners")
        return self._proof(_ASKS, self._node_id, self._other, self._nonce + self._other_nonce)


def _told(response: Any) -> str:
    """Why it refuses, in its words, which may be anybody's."""
    message = getattr(response, "error_message", None) or f"error {response.error_code}"
    return "".join(char if char.isprintable() else "?" for char in str(message)[:300])


class _Awaits(Enum):
    """What the answering side waits for."""

    HANDSHAKE = "handshake"
    HELLO = "hello"
    PROOF = "proof"
    NOTHING = "nothing"


class Reception(_Side):
    """The side that accepts: an answer to each request; `refusal` says why there is an end, `peer` who it is.

    awaits      request                                         next
    HANDSHAKE   SaslHandshake with our mechanism                HELLO
    HELLO       SaslAuthenticate with a hello of this cluster   PROOF
    PROOF       SaslAuthenticate with the right proof           NOTHING, and `peer` is who it is
    any         anything else                                   NOTHING, and `refusal` says why
    """

    __slots__ = ("_awaits", "_hello", "refusal")

    def __init__(self, secret: bytes, cluster_id: str, node_id: int, nonce: bytes) -> None:
        super().__init__(secret, cluster_id, node_id, nonce)
        self._awaits = _Awaits.HANDSHAKE
        self._hello = (-1, b"")  # the asker's node id and nonce
        self.refusal = ""

    def answer(self, request: Any) -> Any:
        """The answer to the next request."""
        awaits, self._awaits = self._awaits, _Awaits.NOTHING
        if isinstance(request, SaslHandshakeRequest) and awaits is _Awaits.HANDSHAKE:
            return self._handshake(request)
        if isinstance(request, SaslAuthenticateRequest):
            if awaits is _Awaits.HELLO:
                return self._challenge(request.auth_bytes)
            if awaits is _Awaits.PROOF:
                return self._check(request.auth_bytes)
        why = f"a {awaits.value} was to come next" if awaits is not _Awaits.NOTHING else "nothing was to come any more"
        self.refusal = f"it introduces itself out of order: {why}"
        if isinstance(request, SaslHandshakeRequest):
            return SaslHandshakeResponse(ErrorCode.ILLEGAL_SASL_STATE, [MECHANISM])
        return SaslAuthenticateResponse(ErrorCode.ILLEGAL_SASL_STATE, self.refusal)

    def _handshake(self, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
        if request.mechanism != MECHANISM:
            self.refusal = f"it asks for the SASL mechanism {request.mechanism[:50]!r}; brokers use {MECHANISM} here"
            return SaslHandshakeResponse(ErrorCode.UNSUPPORTED_SASL_MECHANISM, [MECHANISM])
        self._awaits = _Awaits.HELLO
        return SaslHandshakeResponse(0, [MECHANISM])

    def _challenge(self, hello: Buffer) -> SaslAuthenticateResponse:
        data = bytes(hello)
        try:
            asker, length = _HELLO.unpack_from(data)
        except error:
            asker, length = -1, 0
        cluster_id, nonce = data[_HELLO.size : _HELLO.size + length], data[_HELLO.size + length :]
        if asker < 0 or len(nonce) != NONCE_BYTES:
            return self._refuse(f"its hello of {len(data)} bytes is none, or cut short")
        if cluster_id != self._cluster_id:
            theirs = cluster_id.decode("utf-8", "replace")
            ours = self._cluster_id.decode()
            return self._refuse(
                f"broker {asker} is of cluster {theirs!r}, this one is of {ours!r}; give it the address of a broker of "
                "its own cluster, or an empty data directory"
            )
        if asker == self._node_id:
            return self._refuse(f"it has the node id of this broker, {asker}; give each broker a node.id of its own")
        self._hello = asker, nonce
        self._awaits = _Awaits.PROOF
        return SaslAuthenticateResponse(auth_bytes=_NODE_ID.pack(self._node_id) + self._nonce)

    def _check(self, proof: Buffer) -> SaslAuthenticateResponse:
        asker, nonce = self._hello
        nonces = nonce + self._nonce
        if not hmac.compare_digest(self._proof(_ASKS, asker, self._node_id, nonces), bytes(proof)):
            return self._refuse(f"it says that it is broker {asker} and does not know the secret; {_SAME_SECRET}")
        self.peer = asker
        return SaslAuthenticateResponse(auth_bytes=self._proof(_ANSWERS, asker, self._node_id, nonces))

    def _refuse(self, why: str) -> SaslAuthenticateResponse:
        self.refusal = why
        return SaslAuthenticateResponse(ErrorCode.SASL_AUTHENTICATION_FAILED, why)
