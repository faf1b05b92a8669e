"""Whole answers as facts: every field of an answer on one line.

What is random or the machine's own is told by its shape (`versions.SHAPES`), names of topics by letters, and the texts
of errors by whether there is one: ours name the fault and the remedy where Apache Kafka often says nothing.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from tests.conformance.raw import Closed, Connection, fitting, plain
from tests.conformance.scenario import Facts
from tests.conformance.scenarios.versions import shaped, told
from tests.conformance.world import World

NO_ANSWER_SECONDS = 20.0
TEXTS = ("error_message", "batch_index_error_message")


def without_texts(value: Any) -> Any:
    """The answer with `text` for every text of an error."""
    if isinstance(value, dict):
        return {name: "text" if name in TEXTS and each else without_texts(each) for name, each in value.items()}
    return [without_texts(each) for each in value] if isinstance(value, list) else value


def lettered(text: str, names: Mapping[str, str]) -> str:
    """Names that differ from run to run, each by its letter; the longest first, for one may begin like another."""
    for name in sorted(names, key=len, reverse=True):
        text = text.replace(name, names[name])
    return text


def ask(
    world: World, api: str, version: int, body: dict[str, Any], names: Mapping[str, str], peer: Connection | None = None
) -> str:
    """One request, on a connection of its own unless one is given: its whole answer, or what became of it."""
    try:
        if peer is None:
            # Who says that it is a replica is another broker of the cluster.
            replica = body.get("replica_state", body).get("replica_id", -1)
            patience = {"seconds_max": NO_ANSWER_SECONDS}
            with world.connect(**patience) if replica < 0 else world.connect_as(replica, **patience) as own:
                reply = own.call(api, version, fitting(api, version, body))
        else:
            reply = peer.call(api, version, fitting(api, version, body))
    except Closed:
        return "closed"
    except TimeoutError:
        return "no answer"
    return lettered(told(without_texts(shaped(plain(reply.body), "\0"))), names)


def answers(
    world: World, api: str, versions: Iterable[int], bodies: Mapping[str, dict[str, Any]], names: Mapping[str, str]
) -> Facts:
    """The same requests at some versions; versions in a row that answer alike are one fact."""
    facts: Facts = {}
    asked = list(versions)
    for name, body in bodies.items():
        found: list[tuple[int, int, str]] = []
        for version in asked:
            text = ask(world, api, version, body, names)
            if found and found[-1][2] == text:
                found[-1] = (found[-1][0], version, text)
            else:
                found.append((version, version, text))
        for low, high, text in found:
            facts[name if len(asked) == 1 else f"{name}, v{low}{'' if low == high else f' to v{high}'}"] = text
    return facts
