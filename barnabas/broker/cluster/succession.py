"""Who may lead a partition, and who will: what a change of its ISR, or of who is alive, comes to. Pure (KIP-966).

The high watermark stands still while the ISR is below `min.insync.replicas`. So whoever leaves an ISR that is, or
falls, below it has all that is committed: it is an *eligible leader replica* (ELR) until the ISR is large enough.

    minimum 2    ISR 1 2 3   ELR -     3 is fenced     ISR 1 2   ELR -
                                       2 is fenced     ISR 1     ELR 2
                                       1 is fenced     ISR -     ELR 1 2     nobody leads; 1 did last
                                       2 is back       ISR 2     ELR 1       2 leads: nothing is lost
      had 2 come back without proof (`node/proof`)     ISR -     ELR 1       it lost what it had, maybe: waits for 1
      and then 1 without proof, too                    ISR -     ELR -       nobody is known to have all of it:
                                       1 is unfenced   ISR 1     ELR -       1 leads as the last that did, RECOVERING

The leader stays if it may lead; else the first of the replicas, in their order, that may: one in sync or, where the
ISR is empty, of the ELR. Else, where both are empty, the last known leader; else, where the topic lets it, anyone
alive. The last two are told as a possible loss, are the whole ISR, and RECOVERING until the first follower is in sync.

Where the feature `eligible.leader.replicas.version` is off nobody becomes eligible, and the last member of an ISR stays
in it: nobody leads until it is back. If it comes back without proof it leaves the ISR and leads as the last known one,
RECOVERING: what may be lost is told. Apache Kafka asks for no proof then (`handleBrokerShutdown`): the last member
stays and leads, whatever it lost, and nobody is told.

Unlike Apache Kafka's, an ELR lasts through a change of `min.insync.replicas` as long as the ISR is below the new one.
Source: `PartitionChangeBuilder` of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from barnabas.broker.cluster.image import BROKER_RESOURCE, TOPIC_RESOURCE, Image, PartitionState
from barnabas.broker.cluster.records import Config, MetadataRecord, PartitionChange
from barnabas.broker.cluster.turns import SMALL_MAX
from barnabas.broker.config import BrokerConfig
from barnabas.broker.jobs import Job
from barnabas.protocol.ids import NO_LEADER

MIN_ISR: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"


class Terms(NamedTuple):
    """What a topic's settings say of it: `min.insync.replicas`, and whether anyone may lead where nobody else can.

    `eligible` is the cluster's: whether who leaves an ISR may be noted as eligible.
    """

    min_isr: int = 1
    unclean: bool = False
    eligible: bool = True


DEFAULT: Final = Terms()
"""Kafka's defaults."""
TermsOf: TypeAlias = Callable[[str], Terms]
"""The terms of a topic, by name."""
Able: TypeAlias = Callable[[int], bool]
"""Whether a broker could lead: it is alive."""


def default_terms(topic: str) -> Terms:
    """Kafka's defaults, whatever the topic."""
    return DEFAULT


def terms_from(settings: Mapping[str, str], config: BrokerConfig, *, eligible: bool = True) -> Terms:
    """The terms of a topic that was given these settings; what it was not given is the broker's."""
    least, unclean = settings.get(MIN_ISR), settings.get(_UNCLEAN)
    return Terms(
        config.min_insync_replicas if least is None else int(least),
        config.unclean_leader_election_enable if unclean is None else unclean.strip().lower() == "true",
        eligible,
    )


def settle(
    partition: int,
    state: PartitionState,
    terms: Terms,
    able: Able,
    *,
    isr: tuple[int, ...] | None = None,
    lost: int = NO_LEADER,
    replicas: tuple[int, ...] | None = None,
) -> PartitionChange | None:
    """What changes in a partition; None for nothing.

    Args:
        partition: its number.
        state: how it stands.
        terms: of its topic.
        able: who could lead.
        isr: who is in sync from now on; None: as it is.
        lost: who may have lost what it had, and counts for nothing.
        replicas: where it is from now on; None: where it was.
    """
    target = state.isr if isr is None else isr
    replicas = state.replicas if replicas is None else replicas
    if not (target or terms.eligible or state.elr) and lost == NO_LEADER:
        target = tuple(one for one in state.isr if one in replicas)
    elr = eligible(state, target, terms, lost, replicas)
    leader, unclean = _elect(state, target, elr, terms, able, replicas)
    if unclean:
        target, elr = (leader,), ()
    elif leader != NO_LEADER and leader not in target:
        target = (leader,)
        elr = eligible(state, target, terms, lost, replicas)
    if leader != NO_LEADER:
        last_known: tuple[int, ...] = ()
    elif state.isr and not target:
        last_known = (state.leader if state.leader != NO_LEADER else state.isr[0],)
    else:
        last_known = state.last_known
    change = PartitionChange(
        state.topic_id,
        partition,
        None if target == state.isr else target,
        None if leader == state.leader else leader,
        recovering=True if unclean else None,
        elr=None if elr == state.elr else elr,
        last_known=None if last_known == state.last_known else last_known,
    )
    return None if change == PartitionChange(state.topic_id, partition) else change


def eligible(
    state: PartitionState, isr: tuple[int, ...], terms: Terms, lost: int, replicas: tuple[int, ...]
) -> tuple[int, ...]:
    """Who of `replicas` has all that was committed besides the members of `isr`, which is the ISR from now on."""
    if len(isr) >= min(terms.min_isr, len(replicas)):
        return ()
    had = {*state.elr, *state.isr} if terms.eligible or not isr else {*state.elr}
    have = sorted(had & set(replicas))
    return tuple(one for one in have if one not in isr and one != lost)


def has_all(state: PartitionState, broker_id: int) -> bool:
    """Whether a broker has all that was committed, so that it may lead: it is in sync, or else eligible."""
    return broker_id in (state.isr or state.elr)


def smaller_minimum(image: Image, config: BrokerConfig, records: Sequence[MetadataRecord]) -> Job[list[MetadataRecord]]:
    """What changes with `min.insync.replicas`: where the ISR is large enough now, it may commit what no ELR has."""
    changed = [one for one in records if isinstance(one, Config) and one.name == MIN_ISR]
    if not changed:
        return []
    given = {one.resource_name: one.value for one in changed if one.resource_type == TOPIC_RESOURCE}
    of_all = [one.value for one in changed if one.resource_type == BROKER_RESOURCE]
    changes: list[MetadataRecord] = []
    looked_at = 0
    for topic in list(image.topics.values()) if of_all else [image.topics[name] for name in given]:
        settings = dict(image.topic_overrides(topic.name))
        if topic.name in given:
            settings[MIN_ISR] = given[topic.name] or ""
        least = settings.get(MIN_ISR) or (of_all[-1] if of_all else None)
        terms = Terms(config.min_insync_replicas if not least else int(least))
        for number, state in topic.partitions.items():
            if state.elr and state.isr and not eligible(state, state.isr, terms, NO_LEADER, state.replicas):
                changes.append(PartitionChange(state.topic_id, number, elr=()))
            looked_at += 1
            if looked_at % SMALL_MAX == 0:
                yield None
    return changes


def one_minimum(image: Image, config: BrokerConfig) -> list[MetadataRecord]:
    """All brokers of a cluster go by one `min.insync.replicas`: leaders commit by it, and who is eligible hangs on it.

    Source: `ConfigurationControlManager.maybeGenerateElrSafetyRecords` of Apache Kafka.
    """
    given = {name: settings for (kind, name), settings in image.configs.items() if kind == BROKER_RESOURCE}
    records: list[MetadataRecord] = [
        Config(BROKER_RESOURCE, name, MIN_ISR, None) for name, settings in given.items() if name and MIN_ISR in settings
    ]
    if MIN_ISR not in given.get("", {}):
        records.append(Config(BROKER_RESOURCE, "", MIN_ISR, str(config.min_insync_replicas)))
    return records


def _elect(
    state: PartitionState,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    terms: Terms,
    able: Able,
    replicas: tuple[int, ...],
) -> tuple[int, bool]:
    """Who leads, and whether something may be lost with that."""
    have_all = isr or elr
    for one in (state.leader, *replicas):
        if one in replicas and one in have_all and able(one):
            return one, False
    last = state.last_known if not have_all else ()
    for one in (*last, *(replicas if terms.unclean else ())):
        if one in replicas and able(one):
            return one, True
    return NO_LEADER, False
