"""Defects of replicas and their controller, for runs with three brokers; each with the checker that has to find it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from barnabas.simulator.plan import SEVERAL
from tests.durability.plants import Change
from tests.simulator.plant import Plant

_PARTITION: Final = "barnabas.broker.replica.partition:Partition"


def _plant(what: str, found_as: str, seed: int, *changes: tuple[str, str, str]) -> Plant:
    return Plant(what, tuple(Change(*one) for one in changes), found_as, seed, SEVERAL)


PLANTS_OF_SEVERAL: Final = MappingProxyType(
    {
        "replicas_watermark_off_by_one": _plant(
            "A leader commits one record more than its ISR has.",
            "in sync",
            0,
            (
                f"{_PARTITION}.advance_high_watermark",
                "log.advance_high_watermark(candidate)",
                "log.advance_high_watermark(min(candidate.offset + 1, end.offset))",
            ),
        ),
        "shrink_before_its_answer": _plant(
            "Whom a leader wants to remove from the ISR counts no more at once.",
            "in sync",
            1,
            (
                "barnabas.broker.replica.isr:IsrState.propose",
                "self.maximal = self.committed + joining",
                "self.maximal = self.committed = proposal.isr",
            ),
            (f"{_PARTITION}._may_join", "return ", "return False and "),
        ),
        "answered_at_the_end": _plant(
            "A produce is answered once its records are in the leader's log.",
            "inconsistent offsets",
            1,
            (
                f"{_PARTITION}.reached",
                "self.log.high_watermark >= required_offset",
                "self.log.log_end_offset >= required_offset",
            ),
        ),
        "elected_from_outside": _plant(
            "Any replica that is alive may lead.",
            "decisions",
            1,
            ("barnabas.broker.cluster.succession:_elect", "one in have_all and able(one)", "able(one)"),
        ),
        "fenced_keeps_its_place": _plant(
            "A broker that is fenced stays in the ISR.",
            "decisions",
            1,
            (
                "barnabas.broker.cluster.leadership:_without",
                "tuple(member for member in state.isr if member != broker_id)",
                "state.isr",
            ),
        ),
        "minimum_dropped": _plant(
            "A leader commits with any ISR.",
            "minimum",
            2,
            (
                f"{_PARTITION}.advance_high_watermark",
                "in_sync_count < log.config.min_insync_replicas and in_sync_count < len(self.replicas)",
                "False",
            ),
        ),
        "fenced_brokers_count": _plant(
            "Fenced brokers, and earlier lives of brokers, may be in an ISR.",
            "decisions",
            1,
            (
                "barnabas.broker.cluster.image:Image.isr_eligible",
                "not broker.fenced and broker_epoch in (-1, broker.broker_epoch)",
                "True",
            ),
        ),
        "cut_to_the_watermark": _plant(
            "A follower begins by cutting its log to its high watermark, whatever its leader has.",
            "in sync",
            7,
            ("barnabas.broker.replica.follower:Follower.begin", "log.latest_epoch < 0 and ", ""),
        ),
    }
)
