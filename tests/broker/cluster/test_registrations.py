"""Registrations, heartbeats and sessions: the table of `registrations`, line by line, and by chance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.broker.cluster.image import Image
from barnabas.broker.cluster.records import FeatureLevel
from barnabas.broker.cluster.registrations import SESSION_MS, Heartbeat, Registration, Registrations
from barnabas.protocol.errors import ErrorCode, KafkaError


class World:
    """A controller's image and log end, and the brokers' way to it."""

    def __init__(self):
        self.image = Image()
        self.end = 10
        self.now_ms = 0
        self.registrations = Registrations(1, "ours")

    def write(self, record):
        if record is not None:
            self.image.apply([record])
            self.end += 1

    def register(self, broker=2, incarnation=b"a" * 16, cluster="ours", features=()):
        asked = Registration(broker, cluster, incarnation, (("INTERNAL", "h", 1),), "r", features=features)
        record = self.registrations.register(self.image, asked, self.end, self.now_ms)
        self.write(record)
        return record

    def beat(self, broker=2, epoch=None, offset=None, wants_fence=False):
        epoch = self.image.broker_epoch(broker) if epoch is None else epoch
        offset = self.end if offset is None else offset
        told = self.registrations.heartbeat(self.image, Heartbeat(broker, epoch, offset, wants_fence), self.now_ms)
        self.write(told.record)
        return told

    def unregister(self, broker=2):
        return self.registrations.unregister(self.image, broker, self.now_ms)

    def expire(self):
        for record in self.registrations.expired(self.image, self.now_ms):
            self.write(record)


@pytest.fixture
def world():
    return World()


def refused(code, call, **asked):
    with pytest.raises(KafkaError) as caught:
        call(**asked)
    assert caught.value.code == code
    return caught.value.detail


def test_a_broker_comes_up_fenced_and_takes_part_when_it_has_its_own_registration(world):
    record = world.register()
    assert (record.broker_epoch, record.fenced, record.rack) == (10, True, "r")
    assert world.beat(offset=10) == (None, False, True)
    assert not world.image.is_alive(2)
    told = world.beat(offset=11)
    assert (told.is_caught_up, told.is_fenced) == (True, False)
    assert world.image.is_alive(2)
    assert world.beat().record is None, "said once"


def test_one_that_wants_to_stay_fenced_does_and_one_that_wants_to_be_is(world):
    world.register()
    assert world.beat(wants_fence=True).is_fenced
    assert not world.beat().is_fenced
    assert world.beat(wants_fence=True).is_fenced
    assert not world.image.is_alive(2)


def test_who_is_silent_for_a_session_is_fenced_and_comes_back_with_a_heartbeat(world):
    world.register()
    world.beat()
    assert world.registrations.next_deadline_ms(world.image) == SESSION_MS
    world.now_ms = SESSION_MS - 1
    world.expire()
    assert world.image.is_alive(2)
    world.now_ms += 1
    world.expire()
    assert not world.image.is_alive(2)
    assert world.registrations.next_deadline_ms(world.image) is None
    world.beat()
    assert world.image.is_alive(2)
    assert world.registrations.next_deadline_ms(world.image) == 2 * SESSION_MS


def test_an_id_that_is_in_use_is_refused_until_its_session_is_over(world):
    world.register()
    world.beat()
    world.now_ms = SESSION_MS - 1
    detail = refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, world.register, incarnation=b"b" * 16)
    assert "node.id" in detail
    assert world.image.brokers[2].incarnation_id == b"a" * 16, "nothing changed"
    world.now_ms += 1
    world.expire()
    record = world.register(incarnation=b"b" * 16)
    assert (record.broker_epoch, record.fenced) == (13, True)
    refused(ErrorCode.STALE_BROKER_EPOCH, world.beat, epoch=10)


def test_an_id_whose_broker_went_in_good_order_is_free_at_once(world):
    world.register()
    world.beat()
    world.beat(wants_fence=True)
    assert world.register(incarnation=b"b" * 16).broker_epoch == 13


def test_an_answer_that_was_lost_is_given_again_and_changes_nothing(world):
    world.register()
    world.beat()
    assert world.register() is None
    assert (world.image.is_alive(2), world.image.broker_epoch(2)) == (True, 10)


def test_the_controllers_own_id_is_in_use_for_ever(world):
    world.now_ms = 10 * SESSION_MS
    refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, world.register, broker=1)


def test_a_broker_of_another_cluster_is_refused(world):
    detail = refused(ErrorCode.INCONSISTENT_CLUSTER_ID, world.register, cluster="theirs")
    assert "broker 2 is of cluster theirs, this one is ours" in detail
    assert not world.image.brokers


def test_who_is_unknown_is_told_to_register(world):
    refused(ErrorCode.BROKER_ID_NOT_REGISTERED, world.beat, epoch=0)


def test_a_controller_that_takes_over_gives_everybody_a_session(world):
    world.register()
    world.beat()
    world.registrations = Registrations(1, "ours")
    world.now_ms = 50_000
    world.registrations.take_over(world.image, world.now_ms)
    world.expire()
    assert world.image.is_alive(2)
    refused(ErrorCode.DUPLICATE_BROKER_REGISTRATION, world.register, incarnation=b"b" * 16)
    world.now_ms += SESSION_MS
    world.expire()
    assert not world.image.is_alive(2)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("register"), st.sampled_from([2, 3]), st.sampled_from([b"a" * 16, b"b" * 16])),
        st.tuples(st.just("beat"), st.sampled_from([2, 3]), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([1, 2000, SESSION_MS]), st.none()),
        st.tuples(st.just("take over"), st.none(), st.none()),
    ),
    max_size=40,
)


@given(STEPS)
def test_whatever_happens_epochs_rise_and_only_who_was_heard_in_time_is_alive(steps):
    world = World()
    heard: dict[int, int] = {}
    epochs: dict[int, int] = {}
    for what, one, other in steps:
        try:
            if what == "register":
                if world.register(one, other) is not None:
                    assert world.image.broker_epoch(one) > max(epochs.values(), default=-1), "no two epochs are one"
                    epochs[one] = world.image.broker_epoch(one)
                heard[one] = world.now_ms
            elif what == "beat":
                world.beat(one, wants_fence=other)
                heard[one] = world.now_ms
            elif what == "wait":
                world.now_ms += one
            else:
                world.registrations.take_over(world.image, world.now_ms)
                heard = dict.fromkeys(world.image.brokers, world.now_ms)
        except KafkaError:
            pass
        world.expire()
        for broker in world.image.brokers:
            assert not world.image.is_alive(broker) or world.now_ms < heard[broker] + SESSION_MS


def test_a_broker_that_could_not_be_forgotten_is_heard_and_missed_as_before(world):
    world.register()
    world.beat()
    world.beat(wants_fence=True)
    assert world.unregister().broker_id == 2  # the disk is full: nobody writes it
    world.now_ms = 1000
    assert not world.beat().is_fenced
    world.now_ms += SESSION_MS
    world.expire()
    assert not world.image.is_alive(2)


def test_a_broker_that_was_forgotten_is_taken_in_as_a_new_one(world):
    world.register()
    world.beat()
    world.beat(wants_fence=True)
    world.write(world.unregister())
    refused(ErrorCode.BROKER_ID_NOT_REGISTERED, world.beat, epoch=10)
    assert world.registrations.next_deadline_ms(world.image) is None
    assert world.register() is not None
    assert not world.beat().is_fenced


def test_a_broker_that_does_not_know_the_levels_of_the_cluster_is_refused(world):
    world.image.apply([FeatureLevel("metadata.version", 31), FeatureLevel("group.version", 0)])
    detail = refused(ErrorCode.UNSUPPORTED_VERSION, world.register, features=(("metadata.version", 7, 30),))
    assert detail.startswith("broker 2 is of a release that does not know the levels of this cluster: ")
    assert detail.endswith(": metadata.version 31, known from 7 to 30")
    assert not world.image.brokers
    assert world.register(features=(("metadata.version", 7, 32), ("another", 1, 2)))
    assert world.register(broker=3), "the first release names none"


def test_who_is_there_is_not_forgotten(world):
    """It never came back by itself: one request for each broker, by anybody, and there was no cluster any more."""
    world.register()
    refused(ErrorCode.INVALID_REQUEST, world.unregister)
    assert world.beat(offset=0).is_fenced  # it starts, and has not caught up
    refused(ErrorCode.INVALID_REQUEST, world.unregister)
    assert not world.beat().is_fenced
    assert "stop it first" in refused(ErrorCode.INVALID_REQUEST, world.unregister)
    world.now_ms += SESSION_MS
    refused(ErrorCode.INVALID_REQUEST, world.unregister)  # it is fenced first
    world.expire()
    assert world.unregister().broker_id == 2


def test_who_stops_is_forgotten_at_once_and_who_ends_in_its_start_when_its_session_does(world):
    world.register()
    world.beat()
    world.beat(wants_fence=True)
    assert world.unregister().broker_id == 2
    world.register(incarnation=b"b" * 16)
    world.now_ms += SESSION_MS - 1
    refused(ErrorCode.INVALID_REQUEST, world.unregister)
    world.now_ms += 1
    assert world.unregister().broker_id == 2
    world.register(incarnation=b"c" * 16)
    world.beat(offset=0, wants_fence=True)
    assert world.unregister().broker_id == 2
