"""Defects of replicas and their controller, for runs with three brokers; each with the checker that has to find it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from barnabas.simulator.plan import SEVERAL
from tests.durability.plants import Change
from tests.simulator.plant import Plant

_PARTITION: Final = "barnabas.broker.replica.partition:Partition"


def plant_of_several(what: str, found_as: str, seed: int, *changes: tuple[str, str, str]) -> Plant:
    """A defect, with its changes as place, old and new."""
    return Plant(what, tuple(Change(*one) for one in changes), found_as, seed, SEVERAL)


PLANTS_OF_SEVERAL: Final = MappingProxyType(
    {
        "replicas_watermark_off_by_one": plant_of_several(
            "A leader commits one record more than its ISR has.",
            "in sync",
            0,
            (
                f"{_PARTITION}.advance_high_watermark",
                "log.advance_high_watermark(candidate)",
                "log.advance_high_watermark(min(candidate.offset + 1, end.offset))",
            ),
        ),
        "shrink_before_its_answer": plant_of_several(
            "Whom a leader wants to remove from the ISR counts no more at once.",
            "in sync",
            5,
            (
                "barnabas.broker.replica.isr:IsrState.propose",
                "self.maximal = self.committed + joining",
                "self.maximal = self.committed = proposal.isr",
            ),
            (f"{_PARTITION}._may_join", "return ", "return False and "),
        ),
        "answered_at_the_end": plant_of_several(
            "A produce is answered once its records are in the leader's log.",
            "inconsistent offsets",
            1,
            (
                f"{_PARTITION}.reached",
                "self.log.high_watermark >= required_offset",
                "self.log.log_end_offset >= required_offset",
            ),
        ),
        "elected_from_outside": plant_of_several(
            "Any replica that is alive may lead.",
            "decisions",
            0,
            ("barnabas.broker.cluster.succession:_elect", "one in have_all and able(one)", "able(one)"),
        ),
        "deposed_leads_on": plant_of_several(
            "Who leads and hears that another does leads on, in that one's epoch.",
            "leaders",
            0,
            (
                f"{_PARTITION}.become_follower",
                "self._lead_no_longer(NO_LEADER if",
                "self.is_leader or self._lead_no_longer(NO_LEADER if",
            ),
        ),
        "fenced_keeps_its_place": plant_of_several(
            "A broker that is fenced stays in the ISR.",
            "decisions",
            0,
            (
                "barnabas.broker.cluster.leadership:_without",
                "tuple(member for member in state.isr if member != broker_id)",
                "state.isr",
            ),
        ),
        "minimum_dropped": plant_of_several(
            "A leader commits with any ISR.",
            "minimum",
            6,
            (
                f"{_PARTITION}.advance_high_watermark",
                "in_sync_count < log.config.min_insync_replicas and in_sync_count < len(self.replicas)",
                "False",
            ),
        ),
        "fenced_brokers_count": plant_of_several(
            "Fenced brokers, and earlier lives of brokers, may be in an ISR.",
            "lives",
            26,
            (
                "barnabas.broker.cluster.image:Image.isr_eligible",
                "not broker.fenced and broker_epoch in (-1, broker.broker_epoch)",
                "True",
            ),
        ),
        "earlier_lives_count": plant_of_several(
            "Who has come back meanwhile is taken into an ISR for what he had in his earlier life. So that it comes to "
            "that often, leaders are late: they name the life in which they heard of somebody first.",
            "lives",
            2,
            ("barnabas.broker.cluster.image:Image.isr_eligible", "broker_epoch in (-1, broker.broker_epoch)", "True"),
            (
                "barnabas.broker.replica.remote_replica:RemoteReplica.fetched",
                "self.broker_epoch = epoch",
                "self.broker_epoch = epoch if self.broker_epoch < 0 else self.broker_epoch",
            ),
        ),
        "cut_to_the_watermark": plant_of_several(
            "A follower begins by cutting its log to its high watermark, whatever its leader has.",
            "in sync",
            3,
            ("barnabas.broker.replica.follower:Follower.begin", "log.latest_epoch < 0 and ", ""),
        ),
        "joining_counts_late": plant_of_several(
            "Whom a leader wants to take into the ISR counts once the controller's answer is here.",
            "in sync",
            17,
            (f"{_PARTITION}.advance_high_watermark", "maximal = isr.maximal", "maximal = isr.committed"),
            (f"{_PARTITION}._may_join", "return ", "return False and "),
        ),
        "all_have_what_the_leader_has": plant_of_several(
            "A new leader believes that its followers have all that it has.",
            "in sync",
            9,
            (
                "barnabas.broker.replica.remote_replica:RemoteReplica.reset",
                "self.end = UNKNOWN",
                "self.end = OffsetMetadata(leader_end)",
            ),
        ),
        "divergence_untold": plant_of_several(
            "A leader does not say that a follower's log is another.",
            "agreement",
            13,
            (
                "barnabas.broker.replica.fetch:_read",
                "if there.leader_epoch < epoch or there.end_offset < offset:",
                "if False:",
            ),
        ),
        "epochs_not_cut": plant_of_several(
            "A follower that cuts its log keeps the epochs that began behind its end.",
            "epochs",
            19,
            (
                "barnabas.broker.log.log:Log.truncate_to",
                "self.adopt(cut)\n    elif len(epochs := self.epochs.up_to(offset)) < len(self.epochs):",
                "self.adopt(cut._replace(epochs=None))\n    elif epochs := None:",
            ),
        ),
        "unproven_stays_eligible": plant_of_several(
            "Whoever comes back and cannot show that nothing was lost may lead all the same.",
            "in sync",
            91,
            (
                "barnabas.broker.cluster.members:Members.register",
                "leaves = fenced if proven else unproven",
                "leaves = fenced",
            ),
        ),
        "joins_before_the_epoch": plant_of_several(
            "A leader takes into the ISR who has not come to where its epoch began.",
            "in sync",
            45,
            (
                "barnabas.broker.replica.isr_changes:maybe_expand",
                "and end >= partition.epoch_start_offset",
                "",
            ),
        ),
        "follower_skips_producers": plant_of_several(
            "A follower does not note what producers have written.",
            "duplicate",
            5,
            (
                "barnabas.broker.log.log:Log.append_as_follower",
                "if header.producer_id >= 0:",
                "if False:",
            ),
        ),
        "unsynced_follower_counts": plant_of_several(
            "A follower asks for more before it has synced what it has.",
            "synced",
            0,
            (
                "barnabas.broker.replica.follower:Follower.is_busy",
                "self.stage is not _FETCHING or ",
                "self.stage is not _FETCHING or True or ",
            ),
        ),
        "late_answer_taken": plant_of_several(
            "What a follower asked for in one epoch is taken in another, and where its log does not end.",
            "high watermark",
            1,
            (
                "barnabas.broker.replica.fetcher:Fetcher._fetched",
                "if one is not None and one.stage is Stage.FETCHING:\n"
                "                assert one.partition.log.log_end_offset == offset, "
                '"nobody else appends to a log that follows"',
                "if one is not None:",
            ),
            (
                "barnabas.broker.log.log:Log.append_as_follower",
                "if header.base_offset < self.log_end_offset:",
                "if False:",
            ),
        ),
        "stale_proposals_count": plant_of_several(
            "The controller makes a change of the ISR that was proposed before the last one.",
            "proposals",
            14,
            (
                "barnabas.broker.cluster.leadership:judge",
                "if proposal.partition_epoch < state.partition_epoch:",
                "if False:",
            ),
        ),
        "parked_without_a_look": Plant(
            "Whoever comes to wait is parked without a look at what is there by then.",
            (
                Change(
                    "barnabas.broker.delayed.purgatory:Purgatory.try_complete_else_watch",
                    "if operation.try_complete(now_ms):\n        return True\n    operation.purgatory",
                    "operation.purgatory, operation.keys, operation.listed = self, keys, len(keys)\n"
                    "    for key in keys:\n"
                    "        self.watchers.setdefault(key, {})[operation] = None\n"
                    "    self.estimated_total += 1\n"
                    "    self.timer.add(operation, now_ms + operation.timeout_ms)\n"
                    "    return False\n"
                    "    operation.purgatory",
                ),
            ),
            "parked",
            5,
            SEVERAL,
            0,  # as the seed says: some have batches apart, so that a request waits while others of it are committed
        ),
        "who_left_stays_out": plant_of_several(
            "Whoever has left an ISR is never taken in again.",
            "settled: not all is in sync",
            2,
            (
                "barnabas.broker.replica.isr_changes:maybe_expand",
                "remote.broker_id not in isr.committed",
                "False",
            ),
        ),
        "leaderless_stays": plant_of_several(
            "A partition whose leader is gone, and nobody could lead, is led by nobody once they are back.",
            "settled: not all is in sync",
            6,
            ("barnabas.broker.cluster.leadership:unfenced", "if state.leader == NO_LEADER:", "if False:"),
        ),
        "kept_for_who_is_gone": plant_of_several(
            "What is kept of a connection's waiting stays when it ends.",
            "bounds",
            0,
            ("barnabas.broker.replica.shared:Shared.disconnected", "self.waiting.pop(connection_id, None)", "pass"),
        ),
    }
)
