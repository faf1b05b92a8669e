"""P20 to P25: sequences and epochs of idempotent producers, duplicates, and what a restart remembers."""

from tests.conformance.batches import batch
from tests.conformance.scenario import START, STOP, Facts, Steps, scenario
from tests.conformance.scenarios.produce import told
from tests.conformance.world import World, now_ms, records


def one(producer: int, epoch: int, sequence: int, count: int = 1) -> bytes:
    """A batch of an idempotent producer."""
    return batch(records(count), timestamp=now_ms(), producer_id=producer, producer_epoch=epoch, sequence=sequence)


@scenario(
    "P20",
    "an idempotent producer sends sequences 0 to 5 one by one; then 5, 1 and 0 again",
    {
        "sent": "0 1 2 3 4 5",
        "5 again": "NONE, base 5",
        "1 again": "NONE, base 1",
        "0 again": "OUT_OF_ORDER_SEQUENCE_NUMBER(45), base -1",
        "append time of the duplicate": "the stored batch's",
        "HW": "6",
    },
)
def p20(world: World) -> Facts:
    topic, producer = world.topic(), world.producer_id()
    sent = [world.produce(topic, one(producer, 0, sequence)) for sequence in range(6)]
    five = world.produce(topic, one(producer, 0, 5))
    stored = world.fetch(topic, 5)[0].batches[-1].max_timestamp
    return {
        "sent": " ".join(str(each.base_offset) if each.code == "NONE" else each.code for each in sent),
        "5 again": told(five),
        "1 again": told(world.produce(topic, one(producer, 0, 1))),
        "0 again": told(world.produce(topic, one(producer, 0, 0))),
        "append time of the duplicate": "the stored batch's" if five.append_time == stored else str(five.append_time),
        "HW": str(world.fetch(topic, 0)[0].high_watermark),
    }


@scenario(
    "P21",
    "the same: sequence 9 after 0",
    {"first": "NONE, base 0", "gap": "OUT_OF_ORDER_SEQUENCE_NUMBER(45), base -1", "HW": "1"},
)
def p21(world: World) -> Facts:
    topic, producer = world.topic(), world.producer_id()
    return {
        "first": told(world.produce(topic, one(producer, 0, 0))),
        "gap": told(world.produce(topic, one(producer, 0, 9))),
        "HW": str(world.fetch(topic, 0)[0].high_watermark),
    }


@scenario(
    "P22",
    "a producer known at epoch 1: epoch 0; epoch 2 with sequence 3; epoch 2 with sequence 0",
    {
        "epoch 1": "NONE, base 0",
        "epoch 0": "INVALID_PRODUCER_EPOCH(47), base -1",
        "epoch 2, sequence 3": "OUT_OF_ORDER_SEQUENCE_NUMBER(45), base -1",
        "epoch 2, sequence 0": "NONE, base 1",
    },
)
def p22(world: World) -> Facts:
    topic, producer = world.topic(), world.producer_id()
    asked = {"epoch 1": (1, 0), "epoch 0": (0, 1), "epoch 2, sequence 3": (2, 3), "epoch 2, sequence 0": (2, 0)}
    return {name: told(world.produce(topic, one(producer, *state))) for name, state in asked.items()}


@scenario("P23", "a producer nobody knows begins at sequence 42", {"answer": "NONE, base 0"})
def p23(world: World) -> Facts:
    topic = world.topic()
    return {"answer": told(world.produce(topic, one(987_654_321, 0, 42)))}


@scenario(
    "P24",
    "sequences 0 to 4 sent, a clean restart: 4 again, 3 again, 5",
    {
        "4 again": "NONE, base 4",
        "3 again": "OUT_OF_ORDER_SEQUENCE_NUMBER(45), base -1",
        "5": "NONE, base 5",
        "HW": "6",
    },
    restart=STOP,
)
def p24(world: World) -> Steps:
    topic, producer = world.topic(), world.producer_id()
    for sequence in range(5):
        world.produce(topic, one(producer, 0, sequence))
    yield STOP
    yield START
    world.wait(lambda: world.led(topic, 1), "the partition after the restart")
    return {
        "4 again": told(world.produce(topic, one(producer, 0, 4))),
        "3 again": told(world.produce(topic, one(producer, 0, 3))),
        "5": told(world.produce(topic, one(producer, 0, 5))),
        "HW": str(world.fetch(topic, 0)[0].high_watermark),
    }


@scenario(
    "P25",
    "the last sequence is 2147483647: then 0; a batch of three across the wrap",
    {"last": "NONE, base 0", "0": "NONE, base 1", "across": "NONE, base 1", "after": "NONE, base 4"},
)
def p25(world: World) -> Facts:
    topic, other, producer = world.topic(), world.topic(), world.producer_id()
    world.produce(other, one(producer, 0, 2**31 - 2))
    return {
        "last": told(world.produce(topic, one(producer, 0, 2**31 - 1))),
        "0": told(world.produce(topic, one(producer, 0, 0))),
        # 2147483647, 0, 1; so 2 comes next.
        "across": told(world.produce(other, one(producer, 0, 2**31 - 1, 3))),
        "after": told(world.produce(other, one(producer, 0, 2))),
    }
