"""Defects of groups and of their members, for runs with three brokers; each with the checker that has to find it."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from tests.simulator.plants_of_several import plant_of_several

PLANTS_OF_GROUPS: Final = MappingProxyType(
    {
        "answered_below_the_watermark": plant_of_several(
            "A coordinator answers before what it wrote is committed.",
            "committed offsets",
            2,
            ("barnabas.broker.group.shard:Shard.answer", " or not self.behind:", " or True:"),
        ),
        "served_before_all_is_read": plant_of_several(
            "A coordinator serves its groups at once, and reads what is in their log a second later.",
            "committed offsets",
            0,
            (
                "barnabas.broker.group.coordinator:GroupCoordinator.elected",
                "self._run(loader.run(), loaded)",
                "loaded(None)\n"
                "        late = Alarm(lambda _: self._run(loader.run(), lambda _: None))\n"
                "        self._alarms.set(late, self._alarms.now_ms + 1000)",
            ),
        ),
        "zombies_commit": plant_of_several(
            "A commit counts whoever makes it, in whatever generation or epoch.",
            "zombies",
            42,
            (
                "barnabas.broker.group.offsets:_committing",
                "member = group.check_member(by.member_id, by.instance_id)",
                "return group",
            ),
            (
                "barnabas.broker.group.consumer.committing:check_commit",
                "member = group.member(by.member_id)",
                "return",
            ),
        ),
        "given_before_it_is_free": plant_of_several(
            "A member is given what another has still to give up.",
            "owners",
            4,
            (
                "barnabas.broker.group.consumer.reconciling:_next",
                "if (owner := owners.get(number)) is None or owner in aim.own",
                "",
            ),
        ),
        "commits_ahead": plant_of_several(
            "A member commits one record more than it was handed.",
            "consumed",
            2,
            (
                "barnabas.client.consume.group.offsets:GroupOffsets.now",
                "OffsetAndMetadata(offset, leader_epoch=epoch)",
                "OffsetAndMetadata(offset + 1, leader_epoch=epoch)",
            ),
        ),
    }
)
