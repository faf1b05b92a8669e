"""Three brokers, one partition: whatever comes in whatever order, replicas agree below the smaller high watermark.

Produce, messages that arrive, are lost or come late, disks that answer, metadata that is heard late, ISRs that shrink
and grow as the leader proposes and the controller decides, elections of anybody in sync, deleted records, kills; and
failures of the power where `flush.messages=1` asks for a sync. After every step all that must hold is looked at, in
the logs themselves.
"""

from __future__ import annotations

import logging
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from barnabas.protocol.requests.fetch import FetchRequest
from tests.broker.replica.brokers import BROKERS, Cluster

NUMBERS = st.integers(0, 1 << 16)
ANY_BROKER = st.sampled_from(BROKERS)
SOME = st.integers(1, 4)
RARELY = st.integers(0, 3).map(lambda drawn: drawn == 0)


class Defects(logging.Handler):
    """What the rooms catch and log: a defect of ours, whatever else it looks like."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.found = []

    def emit(self, record):
        if record.exc_info:
            self.found.append(record.exc_info[1])


class Replicas(RuleBasedStateMachine):
    flush = 2**63 - 1
    late = False

    @initialize(segment_bytes=st.sampled_from([300, 1 << 20]))
    def begin(self, segment_bytes):
        self.defects = Defects()
        logging.getLogger("barnabas").addHandler(self.defects)
        self.cluster = Cluster(flush_messages=self.flush, segment_bytes=segment_bytes, late=self.late)
        self.cluster.on_request = self.look_at_request
        self.written = 0
        self.answers = []
        self.committed = {}
        self.deleted_to = 0
        self.seen = {}

    # What happens

    @rule(number=NUMBERS, count=st.integers(1, 3), acks=st.sampled_from([1, -1]))
    def produce(self, number, count, acks):
        """Somebody who believes that it leads takes it."""
        leaders = [one for one in self.cluster.brokers.values() if one.hosted().is_leader]
        if leaders:
            one = leaders[number % len(leaders)]
            values = [b"%d" % (self.written + i) for i in range(count)]
            self.written += count
            self.answers.append((one, acks, one.produce(*values, acks=acks, timeout_ms=3000)))

    @precondition(lambda self: self.cluster.network)
    @rule(number=NUMBERS, count=SOME)
    def arrive(self, number, count):
        for _ in range(count):
            if self.cluster.network:
                self.cluster.deliver(number % len(self.cluster.network))

    @precondition(lambda self: self.cluster.network)
    @rule(count=SOME)
    def arrive_in_order(self, count):
        for _ in range(count):
            if self.cluster.network:
                self.cluster.deliver()

    @precondition(lambda self: self.cluster.network)
    @rule(number=NUMBERS, really=RARELY)
    def lose(self, number, really):
        if really:
            self.cluster.lose(number % len(self.cluster.network))

    @rule(broker=ANY_BROKER, count=SOME)
    def answers_of_disk(self, broker, count):
        for _ in range(count):
            self.cluster.brokers[broker].disk_answers()

    @rule(broker=ANY_BROKER, count=SOME)
    def hear(self, broker, count):
        self.cluster.hear(broker, count)

    @rule(number=NUMBERS)
    def elect(self, number):
        """Somebody in sync, who hears of it first."""
        isr = self.cluster.state().isr
        leader = isr[number % len(isr)]
        self.cluster.elect(leader)
        self.cluster.hear(leader)

    @rule()
    def decide(self):
        for broker in BROKERS:
            self.cluster.decide(broker)

    @rule(really=RARELY)
    def settle(self, really):
        if really:
            self.cluster.settle()

    @rule(ms=st.sampled_from([1, 500, 1000, 31_000]))
    def wait(self, ms):
        self.cluster.now_ms += ms
        for broker in self.cluster.brokers.values():
            broker.tick()
            broker.keep_house()

    @rule(number=NUMBERS, really=RARELY)
    def delete_records(self, number, really):
        """At the leader, up to anything that it has committed."""
        one = self.cluster.brokers[self.cluster.leader()]
        log = one.log()
        if really and self.leads_now(one):
            offset = log.log_start_offset + number % (log.high_watermark - log.log_start_offset + 1)
            self.deleted_to = max(self.deleted_to, offset)
            one.delete_records(offset)

    @rule(broker=ANY_BROKER, power=st.booleans(), really=RARELY)
    def restart(self, broker, power, really):
        if really:
            self.cluster.restart(broker, power=power and self.flush == 1)

    # What must hold

    def leads_now(self, broker):
        """Whether it is the leader, and has heard of it."""
        hosted = broker.hosted()
        return hosted.is_leader and hosted.leader_epoch == self.cluster.state().leader_epoch

    def look_at_request(self, sender, request):
        """No follower asks beyond what it has synced, where a sync is asked for."""
        if self.flush == 1 and isinstance(request, FetchRequest) and self.cluster.brokers[sender.broker_id] is sender:
            (topic,) = request.topics
            assert topic.partitions[0].fetch_offset <= sender.log().recovery_point

    @invariant()
    def hold(self):
        if not hasattr(self, "cluster"):
            return
        assert not self.defects.found, self.defects.found
        logs = {}
        for number, broker in self.cluster.brokers.items():
            log = broker.log()
            logs[number] = broker.batches()
            assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
            self.never_back(broker, log.high_watermark)
            self.epochs_fit(log, logs[number])
        self.agree(logs)
        self.acknowledged_is_committed()

    def never_back(self, broker, high_watermark):
        assert high_watermark >= self.seen.get(broker, 0), "it fell within one life"
        self.seen[broker] = high_watermark

    def epochs_fit(self, log, batches):
        entries = log.epochs.entries
        assert all(one[0] < two[0] and one[1] < two[1] for one, two in pairwise(entries))
        for base, _, epoch, _ in batches:
            known = [of for of, start in entries if start <= max(base, log.log_start_offset)]
            # A kill brings deleted records back until the next checkpoint of log starts, but not their epochs.
            assert known[-1:] == [epoch] or (not known and base < self.deleted_to)

    def agree(self, logs):
        """Each batch below a high watermark is the one that any other replica ever had there; a leader has them all."""
        for number, batches in logs.items():
            log = self.cluster.brokers[number].log()
            for base, last, *content in batches:
                if last < log.high_watermark:
                    assert self.committed.setdefault(base, (last, *content)) == (last, *content)
        newest = self.cluster.brokers[self.cluster.leader()]
        if self.leads_now(newest):
            there = {base for base, *_ in logs[newest.broker_id]}
            start = newest.log().log_start_offset
            assert all(base in there for base, (last, *_) in self.committed.items() if last >= start)
            assert start <= self.deleted_to

    def acknowledged_is_committed(self):
        for _, acks, answer in self.answers:
            if answer.there and acks == -1 and answer.codes == [0]:
                assert answer.one.base_offset in self.committed
        alive = self.cluster.brokers.values()
        self.answers = [one for one in self.answers if one[0] in alive and not one[2].there]

    def teardown(self):
        """Healed, all of them have one log, all of it is committed, and every produce was answered."""
        if not hasattr(self, "cluster"):
            return
        logging.getLogger("barnabas").removeHandler(self.defects)
        cluster = self.cluster
        for _ in range(3):
            while any(cluster.decide(broker) for broker in cluster.brokers):
                pass
            cluster.hear_all()
            cluster.advance(2000)
        self.hold()
        assert len(set(cluster.ends().values())) == 1, cluster.ends()
        assert cluster.high_watermarks() == cluster.ends()
        assert sorted(cluster.state().isr) == list(BROKERS), "who has all is in sync again"
        starts = {number: broker.log().log_start_offset for number, broker in cluster.brokers.items()}
        assert min(starts.values()) == starts[cluster.leader()], "nobody shows what the leader hides"
        first, *others = [
            [one for one in broker.batches() if one[1] >= max(starts.values())] for broker in cluster.brokers.values()
        ]
        assert all(other == first for other in others)
        assert not self.answers, "a produce was never answered"
        assert set(cluster.stages().values()) == {"fetching"}


class SyncedReplicas(Replicas):
    flush = 1


class LateReplicas(Replicas):
    late = True


limits = settings(max_examples=60, stateful_step_count=50, suppress_health_check=list(HealthCheck), derandomize=True)
TestReplicas = Replicas.TestCase
TestReplicas.settings = limits
TestSyncedReplicas = SyncedReplicas.TestCase
TestSyncedReplicas.settings = limits
TestLateReplicas = LateReplicas.TestCase
TestLateReplicas.settings = settings(limits, max_examples=25)
