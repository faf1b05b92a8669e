"""Settings in the environment, named as in Kafka's image: KAFKA_LOG_DIRS is log.dirs.

`_` is a dot, `__` an underscore, `___` a dash (`docker/README.md` of Apache Kafka). A BARNABAS_ variable that nobody
knows is an error, for nobody else means one. A KAFKA_ variable may be the image's, a script's or another program's, so
only what looks like a setting is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.broker.config.known import is_known, nearest

_PLUMBING_TEXT: Final = """
    KAFKA_CLASSPATH KAFKA_CLUSTER_ID KAFKA_DEBUG KAFKA_GC_LOG_OPTS KAFKA_HEAP_OPTS KAFKA_HOME KAFKA_JMX_HOSTNAME
    KAFKA_JMX_OPTS KAFKA_JMX_PORT KAFKA_JVM_PERFORMANCE_OPTS KAFKA_LOG4J_CMD_OPTS KAFKA_LOG4J_LOGGERS KAFKA_LOG4J_OPTS
    KAFKA_LOG4J_ROOT_LOGLEVEL KAFKA_MODE KAFKA_OPTS KAFKA_SSL_KEYSTORE_CREDENTIALS KAFKA_SSL_KEYSTORE_FILENAME
    KAFKA_SSL_KEY_CREDENTIALS KAFKA_SSL_TRUSTSTORE_CREDENTIALS KAFKA_SSL_TRUSTSTORE_FILENAME KAFKA_TOOLS_LOG4J_LOGLEVEL
    KAFKA_VERSION
"""
PLUMBING: Final = frozenset(_PLUMBING_TEXT.split())
"""Variables of Kafka's image and scripts that are no settings."""
_PLUMBING_PREFIXES: Final = ("KAFKA_CONFLUENT_", "KAFKA_JMX_", "KAFKA_JVM_", "KAFKA_LOG4J_")
_OTHER_IMAGES: Final = "KAFKA_CFG_"


def kafka_settings(environment: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Settings among the KAFKA_ variables, and a sentence on each that was surely meant as one."""
    entries, told = {}, []
    of_others: dict[str, str] = {}
    for variable in sorted(environment):
        if not variable.startswith("KAFKA_") or variable in PLUMBING or variable.startswith(_PLUMBING_PREFIXES):
            continue
        name = _name("KAFKA_", variable)
        if is_known(name):
            entries[name] = environment[variable]
        elif variable.startswith(_OTHER_IMAGES) and is_known(_name(_OTHER_IMAGES, variable)):
            of_others[variable] = variable.replace(_OTHER_IMAGES, "KAFKA_", 1)
        else:
            meant = nearest(name, cutoff=0.82)
            if meant is not None:
                told.append(f"the variable {variable} is no setting and is ignored; did you mean {_variable(meant)}?")
    if of_others:
        told.append(
            f"variables of another image are ignored: {', '.join(of_others)}; Kafka's own are named without CFG_, "
            f"as {next(iter(of_others.values()))}"
        )
    return entries, tuple(told)


def cluster_id(environment: Mapping[str, str]) -> dict[str, str]:
    """The cluster that `CLUSTER_ID` names, by which Kafka's image formats its directory; BARNABAS_CLUSTER_ID wins."""
    told = environment.get("CLUSTER_ID", "")
    return {"barnabas.cluster.id": told} if told else {}


def own_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """What BARNABAS_ variables say, known or not; our own settings need no second prefix."""
    entries = {}
    for variable in sorted(environment):
        if variable.startswith("BARNABAS_"):
            name = _name("BARNABAS_", variable)
            entries[name if is_known(name) else f"barnabas.{name}"] = environment[variable]
    return entries


def _name(prefix: str, variable: str) -> str:
    stem = variable[len(prefix) :].lower()
    return stem.replace("___", "-").replace("__", "\0").replace("_", ".").replace("\0", "_")


def _variable(name: str) -> str:
    return "KAFKA_" + name.replace("-", "___").replace("_", "__").replace(".", "_").upper()
