"""`barnabas cluster features`: the levels of the cluster's features, and how they are raised or lowered.

As kafka-features.sh: `describe`, `upgrade` and `downgrade`. All levels that are asked for change, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.cli.speak import say, say_json, table
from barnabas.protocol.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.client.admin import Admin
    from barnabas.client.cluster_views import Features


def features_json(features: Features) -> dict[str, Any]:
    """The features as JSON has them."""
    return {
        name: {"level": features.finalized.get(name, 0), "supported": list(span)}
        for name, span in features.supported.items()
    }


def features_table(features: Features) -> str:
    """The features for people."""
    rows = [
        (name, features.finalized.get(name, 0), f"{least} to {most}")
        for name, (least, most) in sorted(features.supported.items())
    ]
    return table(("feature", "level", "supported"), rows) if rows else "no features"


def change(
    admin: Admin, wanted: Sequence[str], *, latest: bool, downgrade: bool, dry: bool, as_json: bool = False
) -> int:
    """Bring features to levels, or show them where none is asked for.

    Args:
        admin: who is asked.
        wanted: `NAME=LEVEL` each.
        latest: raise all that are below it to the highest level that the broker asked knows.
        downgrade: whether levels are lowered.
        dry: only say what would be.
        as_json: for programs.

    Raises:
        ConfigError: a level that is none.
        KafkaError: INVALID_UPDATE_VERSION, where a broker or controller does not know a level, with the reason.
    """
    features = admin.describe_features()
    levels = dict(map(_level, wanted))
    if latest:
        levels = {name: most for name, (_, most) in features.supported.items()} | levels
    changed = {name: level for name, level in levels.items() if level != features.finalized.get(name, 0)}
    if levels:
        admin.update_features(levels, downgrade=downgrade, validate_only=dry)
    if as_json:
        say_json(features=features_json(features), changes=changed, dry_run=dry)
    elif not levels:
        say(features_table(features))
    elif not changed:
        say("all are there already")
    else:
        for name, level in changed.items():
            say(f"{name} {'would be' if dry else 'is'} at {level}, was at {features.finalized.get(name, 0)}")
    return 0


def _level(text: str) -> tuple[str, int]:
    name, equals, level = text.rpartition("=")
    if not (equals and name and level.isascii() and level.isdigit() and len(level) <= 4):
        raise ConfigError(f"{text!r}: write a feature and its level, such as metadata.version=30")
    return name, int(level)
