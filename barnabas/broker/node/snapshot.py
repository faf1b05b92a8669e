"""What can be looked at in a core: `/state`, `top`, tests."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from barnabas.broker.node.startup import Phase

if TYPE_CHECKING:
    from barnabas.broker.node.core import Core


def snapshot(core: Core, now_ms: int, first: int = 0, end: int | None = None) -> dict[str, Any]:
    """All of it as plain values for JSON; of lists the elements from `first` to before `end`."""
    state: dict[str, Any] = {
        "broker": {
            "node_id": core.config.node_id,
            "phase": core.phase.name.lower(),
            "topics": len(core.image.topics),
            "endpoints": [f"{one.listener}://{one.host}:{one.port}" for one in core.endpoints],
            "metadata_offset": core.metadata_end()[0],
        },
        "connections": [
            {
                "id": one.id,
                "listener": one.listener,
                "client": one.client_host,
                "dialect": one.dialect,
                "age_ms": now_ms - one.opened_ms,
                "software": one.client_software_name,
            }
            for one in islice(core.connections.values(), first, end)
        ],
        "jobs": core.jobs.snapshot(),
        "losses": core.logs.losses.snapshot(),
    }
    if core.phase is not Phase.NEW:
        state["broker"]["cluster_id"] = core.services.cluster_id
        state |= core.replicas.snapshot(now_ms, first, end)
        state["uncleanable"] = core.logs.cleaner.snapshot()
        state["groups"] = core.groups.snapshot(first, end)
        state["fetch_sessions"] = core.services.sessions.snapshot(now_ms, first, end)
        state["counts"] = {
            "partitions": len(core.replicas.hosted.online),
            "fetch_sessions": len(core.services.sessions.sessions),
            "groups": sum(1 for _ in core.groups.groups()),
            "parked_operations": sum(purgatory["delayed"] for purgatory in state["purgatories"]),
        }
    return state
