"""What a group goes by: its own settings where it has some, else the broker's."""

from __future__ import annotations

from barnabas.broker.config.group_config import stored_group_config
from barnabas.broker.group.shared import Shared


def session_timeout_ms(shared: Shared, group_id: str) -> int:
    """How long a member may be silent."""
    own = shared.group_overrides(group_id)
    if not own:
        return shared.config.group_consumer_session_timeout_ms
    return stored_group_config(shared.config, own).consumer_session_timeout_ms


def heartbeat_interval_ms(shared: Shared, group_id: str) -> int:
    """How often a member is to be heard of, as it is told."""
    own = shared.group_overrides(group_id)
    if not own:
        return shared.config.group_consumer_heartbeat_interval_ms
    return stored_group_config(shared.config, own).consumer_heartbeat_interval_ms


def assignment_interval_ms(shared: Shared, group_id: str) -> int:
    """How long a target is kept at least (KIP-1263), within what the broker allows."""
    own = shared.group_overrides(group_id)
    if own:
        return stored_group_config(shared.config, own).consumer_assignment_interval_ms
    config = shared.config
    least, most = config.group_consumer_min_assignment_interval_ms, config.group_consumer_max_assignment_interval_ms
    return min(max(config.group_consumer_assignment_interval_ms, least), most)
