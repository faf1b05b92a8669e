"""What to send next, and what an answer means (Kafka's `Sender`).

One step: settle sequences, get a producer id if one is wanted, expire what is too old, drain ready nodes, hand one
Produce request per node to the network. Answers come back through `_on_answer` and decide: done, again, smaller, or
failed. `guard` is entered around everything that appending threads share; user callbacks run outside of it. What such
a callback raises to leave (`sys.exit`) goes to `leave`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from barnabas.client.produce.accumulator import Accumulator
from barnabas.client.produce.batch import ProducerBatch
from barnabas.client.produce.config import ProducerConfig
from barnabas.client.produce.state import ProducerState
from barnabas.net.backoff import Backoff, Random
from barnabas.net.connections import State
from barnabas.net.errors import ClientClosed, ClientTimeout, raise_it
from barnabas.net.metadata import NEVER, Metadata
from barnabas.net.network import NetworkClient
from barnabas.net.topology import Node
from barnabas.protocol.compression import Codec
from barnabas.protocol.errors import RETRIABLE, STALE_METADATA, BarnabasError, ErrorCode, KafkaError
from barnabas.protocol.ids import NO_TIMESTAMP, ZERO_UUID, Buffer, TopicPartition
from barnabas.protocol.requests.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from barnabas.protocol.requests.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

log = logging.getLogger(__name__)

_LAST_VERSION_WITH_NAMES: Final = 12
_NO_IDS: Final = "InitProducerId: the broker waits for ids from the controller, and that for a majority of its voters"
_FATAL: Final = frozenset(
    {ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.PRODUCER_FENCED}
)


class Sender:
    """The producer's decisions. `step` is a driver of the client (`connection.Client.drivers`)."""

    def __init__(
        self,
        config: ProducerConfig,
        accumulator: Accumulator,
        network: NetworkClient,
        metadata: Metadata,
        random: Random,
        guard: AbstractContextManager[Any] | None = None,
        leave: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.config = config
        self.accumulator = accumulator
        self.network = network
        self.metadata = metadata
        self.fatal: BarnabasError | None = None
        self.hungry = True
        self.next_look_ms = 0
        self._state: ProducerState | None = accumulator.state
        self._guard = guard or nullcontext()
        self._leave = leave or raise_it
        self._codec = int(Codec[config.compression_type.upper()])
        self._level = config.compression_level
        self.in_flight: dict[ProducerBatch, None] = {}
        self._calls: list[Callable[[], None]] = []
        self._id_backoff = Backoff(config.retry_backoff_ms, config.retry_backoff_max_ms, random)
        self._id_asked = False
        self._id_failures = 0
        self._id_retry_ms = 0
        self._keeps_order = config.max_in_flight_requests_per_connection == 1 and self._state is None

    # ---- the step -------------------------------------------------------------------------------------------------

    def step(self, now_ms: int) -> int:
        """Send what may go now. Returns when to look again without an event (absolute ms)."""
        due = self._prepare_id(now_ms)
        if self.fatal is not None and self.accumulator.has_unsent:
            self.abort(self.fatal)
        with self._guard:
            # Until this step has said what it waits for, whoever begins a batch must wake us: we may have missed it.
            self.hungry, self.next_look_ms = True, NEVER
            self.accumulator.update(self.metadata.cluster)
            self._expire(now_ms)
            batches_by_node, next_ms = self._drain(now_ms)
        for node_id, batches in batches_by_node:
            self._send(node_id, batches, now_ms)
        with self._guard:
            due = min(due, next_ms, self.accumulator.next_expiry_ms(self.in_flight))
            self.next_look_ms = due
            self.hungry = self._is_hungry(now_ms)
        self._run_calls()
        return due

    @property
    def idle(self) -> bool:
        """Whether every record ever appended has its outcome."""
        return not self.accumulator.incomplete

    def abort(self, error: BarnabasError) -> None:
        """Fail every batch that has no outcome yet (a close that ran out of time)."""
        with self._guard:
            for batch in self.accumulator.take_all():
                self._finish(batch, error)
                self.accumulator.release(batch)
            for batch in self.in_flight:
                self._finish(batch, error)
        self._run_calls()

    def _is_hungry(self, now_ms: int) -> bool:
        """Whether a batch that becomes full could leave at once; if not, an answer will start the next step."""
        if self._state is not None and not self._state.has_id:
            return True
        states = self.network.connections.nodes
        for node_id in self.metadata.cluster.nodes:
            node = states.get(node_id)
            ready = node is not None and node.state is State.READY
            if not ready or not self.network.in_flight_count(node_id) or self.network.is_ready(node_id, now_ms):
                return True
        return not self.metadata.cluster.nodes

    # ---- producer id ------------------------------------------------------------------------------------------------

    def _prepare_id(self, now_ms: int) -> int:
        state = self._state
        if state is None or self.fatal is not None:
            return NEVER
        with self._guard:
            state.resolve()
        if state.has_id or self._id_asked or self.metadata.cluster.is_bootstrap:
            return NEVER
        if now_ms < self._id_retry_ms:
            return self._id_retry_ms
        node: Node | None = self.network.least_loaded_node(now_ms)
        if node is None or not self.network.ready(node.id, now_ms):
            return now_ms + max(self.config.reconnect_backoff_ms, 1)
        self._id_asked = True
        request = InitProducerIdRequest(None, self.config.transaction_timeout_ms)
        self.network.send(node.id, request, now_ms, self._on_id)
        return NEVER

    def _on_id(self, response: InitProducerIdResponse | None, error: BarnabasError | None, now_ms: int) -> None:
        self._id_asked = False
        if response is not None and response.error_code == 0:
            assert self._state is not None
            self._id_failures = 0
            self.metadata.troubles.clear("producer id")
            self._state.set_id(response.producer_id, response.producer_epoch)
            return
        if response is not None:
            waits = response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            error = KafkaError(response.error_code, _NO_IDS if waits else "InitProducerId")
        retriable = isinstance(error, KafkaError) and error.retriable
        assert error is not None
        if retriable or isinstance(error, ClientClosed):
            self.metadata.troubles.note("producer id", error, now_ms)
            self._id_retry_ms = now_ms + self._id_backoff.wait_ms(self._id_failures)
            self._id_failures += 1
            return
        self.fatal = error
        log.error("the producer cannot go on: %s", error)
        self.metadata.troubles.tell(error)
        self.abort(error)

    # ---- out --------------------------------------------------------------------------------------------------------

    def _drain(self, now_ms: int) -> tuple[list[tuple[int, list[ProducerBatch]]], int]:
        accumulator, network, cluster = self.accumulator, self.network, self.metadata.cluster
        if not accumulator.has_unsent or self.fatal is not None:
            return [], NEVER
        found = accumulator.ready(cluster, now_ms)
        if found.leaderless:
            self.metadata.add_topics(found.leaderless, now_ms)
            self.metadata.request_update()
        due = found.next_check_ms
        drained: list[tuple[int, list[ProducerBatch]]] = []
        tracks = self.config.partitioner_availability_timeout_ms > 0
        for node_id in found.nodes:
            if not network.ready(node_id, now_ms):
                due = min(due, now_ms + max(network.poll_delay_ms(node_id, now_ms), 1))
                if tracks:
                    accumulator.note_node(node_id, now_ms, drained=False)
                continue
            batches = accumulator.drain(cluster, node_id, now_ms)
            if tracks:
                accumulator.note_node(node_id, now_ms, drained=True)
            if not batches:
                continue
            for batch in batches:
                self.in_flight[batch] = None
                if self._keeps_order:
                    accumulator.mute(batch.where)
            drained.append((node_id, batches))
        return drained, due

    def _send(self, node_id: int, batches: list[ProducerBatch], now_ms: int) -> None:
        cluster = self.metadata.cluster
        topics: dict[str, TopicProduceData] = {}
        sent: dict[TopicPartition, ProducerBatch] = {}
        for batch in batches:
            records = self._seal(batch)
            if records is None:
                continue
            sent[batch.where] = batch
            name = batch.where.topic
            self.accumulator.topics[name].bytes_sent += sum(map(len, records))
            topic = topics.get(name)
            if topic is None:
                topic = topics[name] = TopicProduceData(name, cluster.topic_id(name))
            topic.partition_data.append(PartitionProduceData(batch.where.partition, records))
        if not sent:
            return
        self.metadata.add_topics(topics, now_ms)  # in use: of interest for another metadata.max.idle.ms
        request = ProduceRequest(None, self.config.acks, self.config.request_timeout_ms, list(topics.values()))
        names = {each.topic_id: each.name for each in topics.values()}  # the metadata may know others by then
        newest = _LAST_VERSION_WITH_NAMES if ZERO_UUID in names else None

        def on_done(response: ProduceResponse | None, error: BarnabasError | None, now_ms: int) -> None:
            for topic in response.responses if response is not None else ():
                topic.name = topic.name or names.get(topic.topic_id, "")
            self._on_answer(sent, response, error, now_ms)

        self.network.send(node_id, request, now_ms, on_done, max_version=newest, expects_answer=self.config.acks != 0)

    def _seal(self, batch: ProducerBatch) -> list[Buffer] | None:
        try:
            return batch.seal(self._codec, self._level)
        except Exception as problem:  # the codec's library is missing or refuses: the batch fails, the others go
            log.exception("a batch for %s cannot be encoded", batch.where)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"cannot encode the batch: {problem}")
            with self._guard:
                self.in_flight.pop(batch, None)
                self._fail(batch, error, maybe_written=False)
                if self._keeps_order:
                    self.accumulator.unmute(batch.where)
            return None

    # ---- back -------------------------------------------------------------------------------------------------------

    def _on_answer(
        self,
        sent: dict[TopicPartition, ProducerBatch],
        response: ProduceResponse | None,
        error: BarnabasError | None,
        now_ms: int,
    ) -> None:
        with self._guard:
            if error is not None:
                self._on_no_answer(sent, error, now_ms)
            elif response is None:  # acks=0: written is all we will ever know
                for batch in sent.values():
                    self._succeed(batch, -1, NO_TIMESTAMP)
            else:
                self._on_response(sent, response, now_ms)
            for batch in sent.values():
                self.in_flight.pop(batch, None)
                if self._keeps_order:
                    self.accumulator.unmute(batch.where)
        self._run_calls()

    def _on_no_answer(self, sent: dict[TopicPartition, ProducerBatch], error: BarnabasError, now_ms: int) -> None:
        retriable = isinstance(error, KafkaError) and error.retriable
        for batch in sent.values():
            if self._late(batch):
                self.accumulator.release(batch)
            elif retriable and self._may_try_again(batch, now_ms):
                self.accumulator.requeue(batch, now_ms)
            else:
                self._fail(batch, error, maybe_written=retriable)

    def _on_response(self, sent: dict[TopicPartition, ProducerBatch], response: ProduceResponse, now_ms: int) -> None:
        nodes = {each.node_id: Node(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints}
        told: set[TopicPartition] = set()
        for topic in response.responses:
            same_topic = topic.topic_id in (ZERO_UUID, self.metadata.cluster.topic_id(topic.name))
            for answer in topic.partition_responses:
                where = TopicPartition(topic.name, answer.index)
                batch = sent.get(where)
                if batch is None or where in told:
                    continue
                told.add(where)
                hint = answer.current_leader
                if hint is not None and hint.leader_id >= 0 and same_topic:
                    self.metadata.update_leader(where, hint.leader_id, hint.leader_epoch, nodes.get(hint.leader_id))
                self._on_partition(batch, answer, now_ms)
        for where, batch in sent.items():
            if where not in told:
                missing = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer says nothing of {where}")
                self._fail(batch, missing, maybe_written=True)

    def _on_partition(self, batch: ProducerBatch, answer: PartitionProduceResponse, now_ms: int) -> None:
        code = answer.error_code
        if code in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            offset = answer.base_offset if code == 0 else -1
            self._succeed(batch, offset, answer.log_append_time_ms)
            return
        if code in STALE_METADATA:
            self.metadata.request_update()
        if self._late(batch):
            self.accumulator.release(batch)
        elif code == ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1:
            self.accumulator.split(batch, now_ms)
            self.accumulator.release(batch)
        elif self._may_try_again(batch, now_ms) and self._worth_another(batch, code, answer.log_start_offset):
            self.metadata.troubles.note(batch.where, KafkaError(code, answer.error_message or str(batch.where)), now_ms)
            self.accumulator.requeue(batch, now_ms)
        else:
            for each in answer.record_errors:
                batch.result.record_errors[each.batch_index] = each.batch_index_error_message or ""
            # One that is out of attempts or of time may have been written: its sequence is not given to another batch.
            refused = KafkaError(code, answer.error_message or str(batch.where))
            self._fail(batch, refused, maybe_written=refused.retriable)

    def _late(self, batch: ProducerBatch) -> bool:
        """It expired while in flight: its outcome is told, only its memory is still out."""
        return batch.result.done

    def _may_try_again(self, batch: ProducerBatch, now_ms: int) -> bool:
        in_time = now_ms - batch.created_ms < self.config.delivery_timeout_ms
        return in_time and batch.attempts < self.config.retries and self.fatal is None

    def _worth_another(self, batch: ProducerBatch, code: int, log_start_offset: int) -> bool:
        if self._state is not None and batch.has_sequence:
            return self._state.can_retry(batch, code, log_start_offset)
        return code in RETRIABLE

    # ---- outcomes ---------------------------------------------------------------------------------------------------

    def _succeed(self, batch: ProducerBatch, base_offset: int, log_append_ms: int) -> None:
        self.metadata.troubles.clear(batch.where)
        if self._state is not None:
            self._state.on_acked(batch, base_offset)
        self._calls += batch.finish(base_offset, log_append_ms, None)
        self.accumulator.release(batch)

    def _fail(self, batch: ProducerBatch, error: BarnabasError, *, maybe_written: bool) -> None:
        if not batch.result.done:
            if self._state is not None and maybe_written:
                self._state.on_expired_in_flight(batch)
            elif self._state is not None:
                code = error.code if isinstance(error, KafkaError) else None
                self._state.on_failed(batch, code, sequence_unused=True)
            self._finish(batch, error)
        self.accumulator.release(batch)
        if isinstance(error, KafkaError) and error.code in _FATAL:
            self.fatal = error

    def _finish(self, batch: ProducerBatch, error: BarnabasError) -> None:
        self.accumulator.records_failed += batch.record_count
        log.debug("%s: %d records failed: %s", batch.where, batch.record_count, error)
        self._calls += batch.finish(-1, NO_TIMESTAMP, error)

    def _expire(self, now_ms: int) -> None:
        """`delivery.timeout.ms`, counted from creation, is over: queued or in flight, the batch has failed."""
        limit_ms = self.config.delivery_timeout_ms
        for batch in self.accumulator.take_expired(now_ms):
            why = self._why(batch)
            late = ClientTimeout(f"{batch.record_count} records for {batch.where} were not sent in {limit_ms} ms{why}")
            self._fail(batch, late, maybe_written=batch.has_sequence)
        for batch in self.in_flight:
            if not batch.result.done and batch.created_ms + limit_ms <= now_ms:
                what = f"{batch.record_count} records for {batch.where}"
                late = ClientTimeout(f"{what} had no answer in {limit_ms} ms{self._why(batch)}")
                if self._state is not None:
                    self._state.on_expired_in_flight(batch)
                # The memory stays out until the request is answered or its connection is gone: the socket reads it.
                self._finish(batch, late)
                self.accumulator.incomplete.pop(batch, None)

    def _why(self, batch: ProducerBatch) -> str:
        missing = self.metadata.missing(batch.where)
        if missing is not None:  # made anew with fewer partitions: whatever else is wrong, waiting does not help
            return f": {missing}"
        info = self.metadata.cluster.partition(*batch.where)
        node = None if info is None else ("node", info.leader)
        return self.metadata.troubles.why(batch.where, node, ("topic", batch.where.topic))

    def _run_calls(self) -> None:
        """Tell all whose records have an outcome. One that leaves (`sys.exit`) does so once all are told: `leave`."""
        leaving: BaseException | None = None
        while self._calls:
            calls, self._calls = self._calls, []
            for call in calls:
                try:
                    call()
                except Exception:
                    log.exception("a delivery callback failed")
                except BaseException as error:
                    leaving = leaving or error
        if leaving is not None:
            self._leave(leaving)
