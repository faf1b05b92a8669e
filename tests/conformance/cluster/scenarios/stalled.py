"""What waits for a follower that stands still: F16, L08, P14 to P17, P19, R01, R02, R30 to R33. C is paused."""

import time
from collections.abc import Callable

from tests.conformance.batches import batch
from tests.conformance.cluster.acts import PAUSED, Steps, of_cluster
from tests.conformance.cluster.world import Cluster, fetch, meanwhile
from tests.conformance.raw import Reply
from tests.conformance.scenario import Facts
from tests.conformance.world import error, now_ms, pause, produce_body, produced, records

SLACK_MS = 3000.0
"""How late an answer may be: both clusters share a few cores with all scenarios of the act."""


def waited(asked: Callable[[], str], least_ms: float, most_ms: float) -> str:
    """The answer, and that it came in this time after it was asked for."""
    began = time.monotonic()
    told = asked()
    ms = (time.monotonic() - began) * 1000
    within = least_ms - 5 <= ms <= most_ms + SLACK_MS
    return told + (", in time" if within else f", after {ms:.0f} ms, not {least_ms:.0f} to {most_ms:.0f}")


def patience_ms(cluster: Cluster) -> int:
    """A timeout that ends before the follower has left the ISR."""
    return cluster.lag_ms * 3 // 8


@of_cluster("R01", "nothing is written for two lag times: who is in sync", act=None)
def r01(cluster: Cluster) -> Facts:
    name = cluster.topic("CAB")
    pause(2 * cluster.lag_ms)
    return {"then": cluster.tell(name)}


@of_cluster(
    "F16", "the only follower stands still: acks 1; fetches at the high watermark and at the end, waiting", act=PAUSED
)
def f16(cluster: Cluster) -> Steps:
    name = cluster.topic("AC")
    cluster.a.produce(name, 2, acks=-1)
    yield
    facts = {"acks 1": cluster.a.produce(name, 1).code}
    facts["at the high watermark"] = waited(lambda: fetch(cluster.a, name, 2, wait=1000), 1000, 1000)
    facts["at the end"] = waited(lambda: fetch(cluster.a, name, 3, wait=10000), 0, 0)
    facts["beyond"] = fetch(cluster.a, name, 4)
    facts["latest"] = cluster.a.listed(name)
    yield
    cluster.wait(lambda: fetch(cluster.a, name, 2).endswith("HW 3"), "the high watermark")
    return facts


@of_cluster(
    "P15",
    "acks -1 with a timeout shorter than the lag time, the follower stands still: the answer; read later",
    act=PAUSED,
)
def p15(cluster: Cluster) -> Steps:
    name = cluster.topic("AC")
    yield
    timeout = patience_ms(cluster)
    facts = {"acks -1": waited(lambda: cluster.a.produce(name, 1, acks=-1, timeout=timeout).code, timeout, timeout)}
    facts["read then"] = fetch(cluster.a, name, 0)
    yield
    cluster.wait(lambda: fetch(cluster.a, name, 0).endswith("HW 1"), "the high watermark")
    return facts | {"read later": fetch(cluster.a, name, 0)}


@of_cluster(
    "P16", "acks -1 for a partition whose followers follow and one whose follower stands still: one answer", act=PAUSED
)
def p16(cluster: Cluster) -> Steps:
    name = cluster.topic("AB", "AC")
    yield
    payload = batch(records(1), timestamp=now_ms())
    timeout = patience_ms(cluster)
    reply: list[Reply] = []

    def ask() -> str:
        body = produce_body({name: {0: payload, 1: payload}}, acks=-1, timeout=timeout)
        reply.append(cluster.a.call("produce", 9, body))
        return ", ".join(
            f"p{index} {one.code} {one.base_offset}" for (_, index), one in sorted(produced(reply[0]).items())
        )

    facts = {"answer": waited(ask, timeout, timeout)}
    yield
    return facts


@of_cluster(
    "P17", "acks -1 with a timeout of a minute: it is answered when the follower that stands still has left", act=PAUSED
)
def p17(cluster: Cluster) -> Steps:
    name = cluster.topic("AC")
    yield
    asked = waited(
        lambda: cluster.a.produce(name, 1, acks=-1, timeout=60000).code, cluster.lag_ms * 0.5, cluster.lag_ms * 1.5
    )
    cluster.wait_isr(name, "A")
    facts = {"acks -1": asked, "then": cluster.tell(name), "read": fetch(cluster.a, name, 0)}
    yield
    return facts


@of_cluster(
    "P14",
    "min.insync.replicas 2, one of two has left: acks -1 and 1; what is visible; the same when it is back",
    act=PAUSED,
)
def p14(cluster: Cluster) -> Steps:
    name = cluster.topic("AC", min_insync_replicas="2")
    cluster.a.produce(name, 1, acks=-1)
    yield
    cluster.a.produce(name, 1, acks=1)  # so that the follower has something to miss
    cluster.wait_isr(name, "A")
    facts: Facts = {}
    for acks in (-1, 1):
        got = cluster.a.produce(name, 1, acks=acks)
        facts[f"acks {acks}"] = f"{got.code}, base {got.base_offset}"
    facts["latest"] = cluster.a.listed(name)
    facts["at the high watermark"] = fetch(cluster.a, name, 1)
    facts["at the end"] = fetch(cluster.a, name, 3)
    yield
    cluster.wait_isr(name, "AC")
    got = cluster.a.produce(name, 1, acks=-1)
    return facts | {"back, acks -1": f"{got.code}, base {got.base_offset}", "back, latest": cluster.a.listed(name)}


@of_cluster(
    "R30",
    "min.insync.replicas 2: acks -1 waits while the follower leaves; what it is told, and what is kept",
    act=PAUSED,
)
def r30(cluster: Cluster) -> Steps:
    name = cluster.topic("AC", min_insync_replicas="2")
    yield
    payload = batch(records(1), timestamp=now_ms())
    with cluster.a.connect() as peer:
        peer.send("produce", 9, produce_body({name: {0: payload}}, acks=-1, timeout=60000))
        cluster.wait_isr(name, "A")
        facts = {"once it has left": "no answer" if peer.silent(0.3) else produced(peer.receive()[1])[name, 0].code}
        facts["told"] = cluster.tell(name)
        facts["latest"] = cluster.a.listed(name)
        facts["another, acks -1"] = cluster.a.produce(name, 1, acks=-1).code
        yield
        cluster.wait_isr(name, "AC")
        if facts["once it has left"] == "no answer":
            facts["once it is back"] = produced(peer.receive()[1])[name, 0].code
    cluster.wait(lambda: cluster.a.listed(name).startswith("offset 1"), "the high watermark")
    return facts


@of_cluster(
    "P19", "acks -1 is held by a follower that stands still; ApiVersions behind it on the same connection", act=PAUSED
)
def p19(cluster: Cluster) -> Steps:
    name = cluster.topic("AC")
    yield
    payload = batch(records(1), timestamp=now_ms())
    software = {"client_software_name": "raw", "client_software_version": "1"}
    with cluster.a.connect() as peer:
        first = peer.send("produce", 9, produce_body({name: {0: payload}}, acks=-1, timeout=patience_ms(cluster)))
        second = peer.send("api_versions", 3, software)
        facts = {"silent at first": str(peer.silent(patience_ms(cluster) / 3000))}
        got = [peer.receive(), peer.receive()]
    facts["order"] = str([each for each, _ in got] == [first, second])
    facts["produce"] = produced(got[0][1])[name, 0].code
    yield
    return facts


@of_cluster(
    "L08", "DeleteRecords while the follower stands still: the answer, and where the leader's log starts", act=PAUSED
)
def l08(cluster: Cluster) -> Steps:
    name = cluster.topic("AC")
    for _ in range(3):
        cluster.a.produce(name, 1, acks=-1)
    yield
    timeout = patience_ms(cluster)

    def ask() -> str:
        asked = {"topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 2}]}], "timeout": timeout}
        one = cluster.a.call("delete_records", 2, asked).body.topics[0].partitions[0]
        return f"{error(one.error_code)}, {one.low_watermark}"

    facts = {"answer": waited(ask, timeout, timeout), "start": cluster.a.listed(name, -2)}
    yield
    return facts


@of_cluster(
    "R02",
    "a follower stands still while its leader writes: ISR, leader epoch, what brokers tell; then it is back",
    act=PAUSED,
)
def r02(cluster: Cluster) -> Steps:
    name = cluster.topic("ABC", "BCA")
    yield
    cluster.a.produce(name, 1)
    cluster.b.produce(name, 1, partition=1)
    facts: Facts = {}
    for index in range(2):
        cluster.wait_isr(name, "AB", index)
        facts[f"p{index}"] = cluster.tell(name, index)
    cluster.wait_isr(name, "AB", 0, at="B")
    facts["p0, told by B"] = cluster.tell(name, 0, at="B")
    facts["acks -1"] = cluster.a.produce(name, 1, acks=-1).code
    yield
    for index in range(2):
        cluster.wait_isr(name, "ABC", index)
        facts[f"p{index}, back"] = cluster.tell(name, index)
    return facts


@of_cluster(
    "R04",
    "only the ISR changes, twice: leader epochs in Metadata, ListOffsets and of a fetch that names one",
    act=PAUSED,
)
def r04(cluster: Cluster) -> Steps:
    name = cluster.topic("ACB")

    def told() -> str:
        return f"{cluster.tell(name)}; {cluster.a.listed(name, epoch=0)}; {fetch(cluster.a, name, 0, epoch=0)}"

    cluster.a.produce(name, 1, acks=-1)
    facts = {"all": told()}
    yield
    cluster.a.produce(name, 1)
    cluster.wait_isr(name, "AB")
    cluster.wait(lambda: cluster.a.listed(name).startswith("offset 2"), "the high watermark")
    facts["one has left"] = told()
    yield
    cluster.wait_isr(name, "ABC")
    return facts | {"it is back": told()}


@of_cluster(
    "R31",
    "a broker stands still that is not missed yet: topics are made on it, and its own cannot be asked",
    act=PAUSED,
)
def r31(cluster: Cluster) -> Steps:
    led = cluster.topic("CAB")
    yield
    name = cluster.fresh()
    facts = {"made": cluster.create(name, "CAB", "ACB"), "told": cluster.brokers()}
    cluster.wait(lambda: len(cluster.a.metadata(name).partitions) == 2, name)
    facts["p0"], facts["p1"] = cluster.tell(name, 0), cluster.tell(name, 1)
    facts["the one it leads"] = cluster.tell(led)
    facts["asked of A"] = cluster.a.produce(led, 1, acks=-1).code
    yield
    cluster.settled(name, "CAB")
    cluster.wait_isr(name, "ABC", 1)
    return facts | {"then, acks -1": cluster.c.produce(name, 1, acks=-1).code}


@of_cluster(
    "R32", "a retry of a batch that still waits for its follower, and the next one of the same producer", act=PAUSED
)
def r32(cluster: Cluster) -> Steps:
    name = cluster.topic("AC")
    producer = cluster.a.producer_id()
    yield
    first = batch(records(1), timestamp=now_ms(), producer_id=producer, producer_epoch=0, sequence=0)
    second = batch(records(1), timestamp=now_ms(), producer_id=producer, producer_epoch=0, sequence=1)
    timeout = patience_ms(cluster)
    facts: Facts = {}

    def sent(payload: bytes, acks: int = -1) -> str:
        got = cluster.a.produce(name, payload, acks=acks, timeout=timeout)
        return f"{got.code}, base {got.base_offset}"

    with meanwhile(lambda: sent(first), facts, "first"):
        cluster.wait(lambda: fetch(cluster.a, name, 1).startswith("NONE"), "it is appended")
        facts["again, acks 1"] = sent(first, acks=1)
        with meanwhile(lambda: sent(first), facts, "again, acks -1"):
            facts["next, acks 1"] = sent(second, acks=1)
    yield
    cluster.wait(lambda: cluster.a.listed(name).startswith("offset 2"), "the high watermark")
    return facts | {"later": sent(first)}


@of_cluster("R33", "a consumer fetches from a follower that follows, while another stands still", act=PAUSED)
def r33(cluster: Cluster) -> Steps:
    name = cluster.topic("ABC")
    cluster.a.produce(name, 1, acks=-1)
    yield
    cluster.a.produce(name, 2)
    facts = {"leader": fetch(cluster.a, name, 0), "at the high watermark": fetch(cluster.b, name, 1, wait=300)}
    cluster.wait_isr(name, "AB")
    cluster.wait(lambda: fetch(cluster.b, name, 0).endswith("HW 3"), "the follower's high watermark")
    facts["when it has left"] = fetch(cluster.b, name, 0)
    yield
    return facts
