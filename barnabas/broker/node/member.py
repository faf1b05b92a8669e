"""A broker whose metadata another node decides: it registers there, follows what is decided, and gives signs of life.

    stage         event                                                next
    REGISTERING   answered with an epoch                               FENCED
                  refused: the id is in use, for as long as a session  REGISTERING, again in a second
                  refused: another cluster                             over, with one sentence
    FENCED        its logs have lost something (`disprove`)            REGISTERING, as one that cannot prove it did not
                  its logs are open (`hosted`), and a heartbeat        UNFENCED
                  is answered with that
    UNFENCED      a heartbeat is answered with a fence: it was silent  FENCED, and again unfenced by the next
    any           no answer                                            as it was, asked again
                  another controller leads now (`led_by`)              as it was, asked again at once, of that one
                  the metadata can be followed no further              over: no heartbeat goes out any more

The controller's metadata is followed from the beginning, beside all that. Once its image has its own registration, and
all that was committed by then, the logs may be opened (`caught_up`).

Source: `BrokerLifecycleManager` of Apache Kafka.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any, Final

from barnabas.broker.cluster.image import Delta
from barnabas.broker.cluster.observer import MetadataRefused, Observer
from barnabas.broker.jobs import Gate, Job
from barnabas.broker.node.whereabouts import Whereabouts
from barnabas.broker.ports import Lane, Peers
from barnabas.protocol.errors import BarnabasError, ErrorCode, error_name
from barnabas.protocol.requests.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.protocol.requests.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

AGAIN_MS: Final = 100
"""After no answer, and where a heartbeat says that the broker has not all metadata yet."""
REFUSED_AGAIN_MS: Final = 1000
IN_USE_MS_MAX: Final = 60_000
"""So long a controller says in one go that the node id is in use, before that is believed: the last session of a broker
that was killed ends by then. Kafka's default of `initial.broker.registration.timeout.ms`."""

Later = Callable[[Callable[[int], None]], None]

logger = logging.getLogger(__name__)


class RegistrationRefused(BarnabasError):
    """The controller does not take this broker in; the text says why, and what can be done."""


class Stage(Enum):
    """How far this broker is with the controller."""

    REGISTERING = "registering"
    FENCED = "fenced"
    UNFENCED = "unfenced"


class Member:
    """This broker's part in a cluster. All that comes from outside is acted on at the end of a step, through `later`.

    `run` takes on what is more than a step. `caught_up` opens when the metadata is there, `unfenced` when the broker
    takes part; both open early when all is over, with the reason in `fault`. `epoch` is the broker's, -1 before it has
    one, `last_epoch` the one that it had last, also while it asks for another. Who the controller is, `where` knows;
    `source`, if it is given, says who is asked for the metadata instead, and `observed` is called when more of that is
    here.
    """

    def __init__(
        self,
        where: Whereabouts,
        asked: BrokerRegistrationRequest,
        observer: Observer,
        peers: Peers,
        heartbeat_ms: int,
        publish: Callable[[Delta], None],
        later: Later,
        run: Callable[[Job[None]], object],
        now_ms: int,
        registered: Callable[[int], None] = lambda epoch: None,
        source: Callable[[], int] | None = None,
        observed: Callable[[int], None] = lambda now_ms: None,
    ) -> None:
        self._where = where
        self._source = source
        self._told_observed = observed
        self._leader = where.current, -1
        self._turn = 0
        self.observer = observer
        self.stage = Stage.REGISTERING
        self.epoch = self.last_epoch = -1
        self.fault: Exception | None = None
        self.caught_up = Gate()
        self.unfenced = Gate()
        self._me = asked
        self._peers = peers
        self._heartbeat_ms = heartbeat_ms
        self._publish = publish
        self._later = later
        self._run = run
        self._told_epoch = registered
        self._hosted = False
        self._asking = False
        self._next_ms = now_ms
        self._in_use_since_ms: int | None = None
        self._said: set[str] = set()  # what was said since the controller answered last
        self._left: Gate | None = None

    # Time

    def tick(self, now_ms: int) -> None:
        """Ask for what is due."""
        if self.fault is None:
            self._observe(now_ms)
            self._speak(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do; None while answers are under way, and when all is over."""
        if self.fault is not None:
            return None
        observe_ms = self.observer.next_deadline_ms()
        speak_ms = None if self._asking or self._is_gone else self._next_ms
        if observe_ms is None or speak_ms is None:
            return speak_ms if observe_ms is None else observe_ms
        return min(observe_ms, speak_ms)

    # What the broker tells

    def hosted(self, now_ms: int) -> None:
        """All logs are open: it is to be unfenced."""
        self._hosted = True
        self._next_ms = now_ms
        self.tick(now_ms)

    def disprove(self, incarnation_id: bytes, now_ms: int) -> None:
        """The logs have lost something, whatever was proved: to be taken in anew, as one that proves nothing."""
        self._me.incarnation_id, self._me.previous_broker_epoch = incarnation_id, -1
        self.epoch, self.stage = -1, Stage.REGISTERING
        self._next_ms = now_ms
        self.tick(now_ms)

    def leave(self, now_ms: int) -> Gate:
        """The broker stops: others are to lead what it leads. The gate opens when that is answered, or cannot be."""
        self._left = Gate()
        if self.fault is not None or self.epoch < 0:
            self._left.open()
        else:
            self._next_ms = now_ms
            self.tick(now_ms)
        return self._left

    @property
    def _is_gone(self) -> bool:
        return self._left is not None and self._left.is_open

    # Metadata

    def _observe(self, now_ms: int) -> None:
        request = self.observer.request(now_ms)
        if request is not None:
            source = self._where.current if self._source is None else self._source()
            self._send(source, request, partial(self._observed, source), Lane.METADATA)

    def _observed(self, source: int, response: Any | None, now_ms: int) -> None:
        if self._where.answered(source, response):
            self.led_by(self._where.current, -1, now_ms)
        if self._where.stranger >= 0:
            self._not_yet(
                f"node {source} says that node {self._where.stranger} leads the controllers, and "
                "controller.quorum.voters of this broker does not name it: name all of them, as they do"
            )
        steps = self._follow(response, now_ms)
        for _ in steps:  # there is more than one step's
            self._run(steps)
            return

    def _follow(self, response: Any | None, now_ms: int) -> Job[None]:
        try:
            delta = yield from self.observer.answered(response, now_ms)
        except MetadataRefused as refusal:
            self._end(refusal)
            return
        if delta is not None:
            self._publish(delta)
        yield from self.observer.let_go()
        self._look(now_ms)
        if self.fault is None:
            self._observe(now_ms)

    def _look(self, now_ms: int) -> None:
        observer = self.observer
        has_itself = self.epoch >= 0 and observer.image.broker_epoch(self._me.broker_id) == self.epoch
        if has_itself and observer.caught_up and not self.caught_up.is_open:
            self.caught_up.open()
        self._told_observed(now_ms)

    # Registration and heartbeats

    def led_by(self, leader: int, epoch: int, now_ms: int) -> None:
        """Who is the active controller; what another one was asked is asked anew, at once."""
        if self._leader == (leader, epoch):
            return
        self._leader = leader, epoch
        if leader >= 0 and self.fault is None:
            self._turn += 1
            self._asking = False
            self._next_ms = now_ms
            self._speak(now_ms)

    def _speak(self, now_ms: int) -> None:
        if self._asking or self._is_gone or now_ms < self._next_ms:
            return
        self._asking = True
        if self.epoch < 0:
            self._tell(self._me, self._registered)
            return
        leaves = self._left is not None
        beat = BrokerHeartbeatRequest(
            self._me.broker_id, self.epoch, self.observer.end_offset, not self._hosted, leaves
        )
        self._tell(beat, partial(self._heard, self._left))

    def _registered(self, response: BrokerRegistrationResponse | None, now_ms: int) -> None:
        self._asking = False
        me, code = self._me, -1 if response is None else response.error_code
        if code != ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            self._in_use_since_ms = None  # a controller that comes back gives every session its whole time again
        elif self._in_use_since_ms is None:
            self._in_use_since_ms = now_ms
        if response is not None and not code:
            self.epoch = self.last_epoch = response.broker_epoch
            self.stage = Stage.FENCED
            self._told_epoch(self.epoch)
            self._next_ms = now_ms + self._heartbeat_ms
            self._answers()
            self._look(now_ms)
        elif code == ErrorCode.INCONSISTENT_CLUSTER_ID:
            self._end(
                RegistrationRefused(
                    f"the controller (node {self._where.current}) is of another cluster than {me.cluster_id}, this "
                    "broker's; name its own controller in controller.quorum.voters, or an empty data directory"
                )
            )
        elif code == ErrorCode.UNSUPPORTED_VERSION:
            self._end(
                RegistrationRefused(
                    "the cluster is at levels of its features that this release does not know, and levels are not "
                    "lowered; start the release that its other brokers are of"
                )
            )
        elif self._in_use_since_ms is not None and now_ms - self._in_use_since_ms >= IN_USE_MS_MAX:
            self._end(
                RegistrationRefused(
                    f"another broker has the node id {me.broker_id} and is alive; give each broker a node.id of its own"
                )
            )
        elif self._in_use_since_ms is not None:
            self._not_yet(f"the node id {me.broker_id} is in use, as it is until a killed broker's session is over")
            self._next_ms = now_ms + REFUSED_AGAIN_MS
        else:
            self._refused("take this broker in", code, now_ms)

    def _heard(self, leaving: Gate | None, response: BrokerHeartbeatResponse | None, now_ms: int) -> None:
        self._asking = False
        if leaving is not None:
            if not leaving.is_open:  # all may have ended meanwhile
                leaving.open()
            return
        if response is not None and response.error_code == ErrorCode.STALE_BROKER_EPOCH:
            self._superseded(now_ms)
        elif response is None or response.error_code:
            self._refused("hear this broker", -1 if response is None else response.error_code, now_ms)
        else:
            self._answers()
            waits = self._hosted and response.is_fenced
            self._next_ms = now_ms + (AGAIN_MS if waits else self._heartbeat_ms)
            if response.is_fenced and self.stage is Stage.UNFENCED:
                logger.warning("the controller has fenced this broker: it was not heard in time")
            self.stage = Stage.FENCED if response.is_fenced else Stage.UNFENCED
            if not response.is_fenced and not self.unfenced.is_open:
                self.unfenced.open()
        if self._left is not None:  # it was asked to leave meanwhile
            self._next_ms = now_ms
            self._speak(now_ms)

    def _superseded(self, now_ms: int) -> None:
        """Its node id was registered once more, while it was fenced: it asks to be taken in anew.

        A request of an earlier life, or of this one before `disprove`, may have been read only now, on another
        connection. Apache Kafka's broker stays out until it is started again. Where it was another broker of the same
        id, one of the two is refused once the other is alive.
        """
        where, me = self._where.current, self._me.broker_id
        self._not_yet(
            f"the controller (node {where}) has registered node {me} again since this broker was: STALE_BROKER_EPOCH"
        )
        self.epoch, self.stage = -1, Stage.REGISTERING
        self._next_ms = now_ms + REFUSED_AGAIN_MS
        if self._left is not None and not self._left.is_open:  # it leads nothing that others could be given
            self._left.open()

    def _refused(self, what: str, code: int, now_ms: int) -> None:
        name, controller = "it does not answer" if code < 0 else error_name(code), self._where.current
        if controller >= 0:
            self._not_yet(f"the controller (node {controller}) does not {what}: {name}")
        else:
            self._not_yet(f"no controller is known that could {what}", logging.INFO)
        soon = code < 0 or code == ErrorCode.NOT_CONTROLLER  # one that was elected may not have begun
        self._next_ms = now_ms + (AGAIN_MS if soon else REFUSED_AGAIN_MS)

    def _not_yet(self, reason: str, level: int = logging.WARNING) -> None:
        if reason not in self._said:
            self._said.add(reason)
            logger.log(level, "%s; it is asked again", reason)

    def _answers(self) -> None:
        if self._said:
            self._said.clear()
            logger.info("the controller answers")

    def _end(self, reason: Exception) -> None:
        logger.error("%s", reason)
        self.fault = reason
        for gate in (self.caught_up, self.unfenced, self._left):
            if gate is not None and not gate.is_open:
                gate.open()

    def ask(self, request: Any, done: Callable[[Any | None], None], lane: Lane, version: int | None = None) -> None:
        """Ask the active controller something that its rooms or its clients want."""
        self._peers.send(self._where.current, request, done, lane, version)

    def _tell(self, request: Any, then: Callable[[Any | None, int], None]) -> None:
        turn, controller = self._turn, self._where.current

        def came(response: Any | None, now_ms: int) -> None:
            if turn != self._turn:  # another one has been asked since
                return
            if self._where.answered(controller, response):
                self._leader = self._where.current, -1
            then(response, now_ms)

        self._send(controller, request, came, Lane.MEMBERSHIP)

    def _send(self, node_id: int, request: Any, then: Callable[[Any | None, int], None], lane: Lane) -> None:
        def done(response: Any | None) -> None:
            self._later(lambda now_ms: then(response, now_ms))

        self._peers.send(node_id, request, done, lane)
