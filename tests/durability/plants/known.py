"""The defects that were found in the broker, by name."""

from __future__ import annotations

from types import MappingProxyType

from tests.durability.plants import Change, Plant

PLANTS = MappingProxyType(
    {
        "long_names": Plant(
            "A directory that is set aside gets a name as long as it comes; who cannot rename it does not start.",
            (
                Change("barnabas.broker.log.names:free_name", "[: NAME_BYTES_MAX - len(tail)]", ""),
                Change(
                    "barnabas.broker.log.manager:LogManager._set_aside", "except OSError", "except ZeroDivisionError"
                ),
            ),
            "process/kills/2",
            8,
        ),
        "metadata_is_cut": Plant(
            "Metadata that is broken is cut where the break is, and nobody is told.",
            (
                Change(
                    "barnabas.broker.cluster.judgement:judge",
                    "    start = 0 if snapshot is None else snapshot.end\n",
                    "    return\n",
                ),
            ),
            "process/metadata/1",
            18,
        ),
        "silent_losses": Plant(
            "What is lost is counted, and nobody is told.",
            (Change("barnabas.broker.log.losses:Losses.report", 'logger.warning("loss: %s", loss)', "pass"),),
            "process/tails/1",
            22,
        ),
    }
)
