"""docs/COMPATIBILITY.md, from the registry of what is served and from what Apache Kafka 4.3.0 told of itself (V18b).

Its table of clients is made from what their tests try (`tests/wire/tried.py`).

An API that Kafka tells and that is not served, or not at each of its versions, needs a reason here; so does one that is
served with less behind it than there. A test finds what lacks one, and reasons that nothing needs any more.
"""

from __future__ import annotations

from collections.abc import Iterator

from barnabas.broker.handlers.registry import UNADVERTISED, advertised_versions
from barnabas.protocol.api import STEMS, VERSIONS, ApiKey, name_of
from tests.conformance.recordings import recorded
from tests.oracle.kafka import VERSION
from tests.wire.tried import CLIENTS, CODECS, SCRIPTS

SECURITY = "authentication and access control are still to come"
TRANSACTIONS = "transactions are still to come"
SHARE = "share groups (KIP-932) are not served: queues over partitions, with a coordinator and a log of their own"
STREAMS = "streams groups (KIP-1071) are not served; Kafka Streams uses the classic protocol then"
VOTERS = "the voters are those that `controller.quorum.voters` names"
TOKENS = "delegation tokens need authentication, which is still to come"

GAPS: dict[int, tuple[str, str]] = {
    17: ("SaslHandshake", SECURITY),
    24: ("AddPartitionsToTxn", TRANSACTIONS),
    25: ("AddOffsetsToTxn", TRANSACTIONS),
    26: ("EndTxn", TRANSACTIONS),
    27: ("WriteTxnMarkers", TRANSACTIONS),
    28: ("TxnOffsetCommit", TRANSACTIONS),
    30: ("CreateAcls", SECURITY),
    31: ("DeleteAcls", SECURITY),
    34: ("AlterReplicaLogDirs", "a broker has one data directory, so no log is moved to another"),
    36: ("SaslAuthenticate", SECURITY),
    38: ("CreateDelegationToken", TOKENS),
    39: ("RenewDelegationToken", TOKENS),
    40: ("ExpireDelegationToken", TOKENS),
    41: ("DescribeDelegationToken", TOKENS),
    49: ("AlterClientQuotas", "there are no quotas by user, client or address; docs/SECURITY.md says what is bounded"),
    51: ("AlterUserScramCredentials", SECURITY),
    65: ("DescribeTransactions", TRANSACTIONS),
    76: ("ShareGroupHeartbeat", SHARE),
    77: ("ShareGroupDescribe", SHARE),
    78: ("ShareFetch", SHARE),
    79: ("ShareAcknowledge", SHARE),
    80: ("AddRaftVoter", VOTERS),
    81: ("RemoveRaftVoter", VOTERS),
    83: ("InitializeShareGroupState", SHARE),
    84: ("ReadShareGroupState", SHARE),
    85: ("WriteShareGroupState", SHARE),
    86: ("DeleteShareGroupState", SHARE),
    87: ("ReadShareGroupStateSummary", SHARE),
    88: ("StreamsGroupHeartbeat", STREAMS),
    89: ("StreamsGroupDescribe", STREAMS),
    90: ("DescribeShareGroupOffsets", SHARE),
    91: ("AlterShareGroupOffsets", SHARE),
    92: ("DeleteShareGroupOffsets", SHARE),
}
"""What Apache Kafka tells and is not served here: its name, and why."""

NO_RECEIVER = "answered, and left out of ApiVersions, as by a Kafka that has no receiver of metrics"
REMARKS: dict[int, str] = {
    ApiKey.FIND_COORDINATOR: f"of groups, answered once their topic is made; others are refused: {TRANSACTIONS}",
    ApiKey.INIT_PRODUCER_ID: f"for idempotent producers; {TRANSACTIONS}",
    ApiKey.DESCRIBE_ACLS: "SECURITY_DISABLED, as in a Kafka without an authorizer",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "none: there are no quotas by user, client or address",
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: "none: nobody has credentials",
    ApiKey.DESCRIBE_QUORUM: VOTERS,
    ApiKey.UNREGISTER_BROKER: "not of one that is alive, which Kafka forgets until it is started anew",
    ApiKey.UPDATE_FEATURES: "`metadata.version` is never lowered",
    ApiKey.LIST_TRANSACTIONS: f"none: {TRANSACTIONS}",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "who joins 625 members or 10,000 partitions has its part at its next heartbeat",
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: NO_RECEIVER,
    ApiKey.PUSH_TELEMETRY: NO_RECEIVER,
    ApiKey.LIST_CONFIG_RESOURCES: "topics, groups and brokers; levels of loggers are no resource here",
}
"""What is served, and says less than there."""

KAFKA: dict[int, str] = {int(key): versions for key, versions in recorded("V18b").items()}
"""What Apache Kafka 4.3.0 told: "first-last" by number."""

HEAD = """\
# Compatibility

Made by `./dev pages` from the registry and from what Apache Kafka 4.3.0 tells of itself (scenario V18b); do not edit.
ApiVersions tells the same to every client. What differs within an API that is served stands in
[FIDELITY.md](FIDELITY.md), what one request may ask in [SECURITY.md](SECURITY.md).

"""


def lacking(key: int) -> bool:
    """Whether a client of Apache Kafka would miss a version here."""
    told = {number: f"{first}-{last}" for number, first, last in advertised_versions()}
    return key in KAFKA and told.get(key) != KAFKA[key]


def rows() -> Iterator[str]:
    """A line for each API that either of the two answers."""
    told = {number: f"{first}-{last}" for number, first, last in advertised_versions()}
    for key in sorted(set(KAFKA) | set(VERSIONS)):
        name = name_of(key) if key in STEMS else GAPS[key][0]
        ours = told.get(key) or ("-".join(map(str, VERSIONS[key])) + ", not told" if key in UNADVERTISED else "")
        theirs = KAFKA.get(key) or ("0-0, not told" if key in UNADVERTISED else "")
        why = GAPS[key][1] if key in GAPS else REMARKS.get(key, "")
        yield f"| {key} | {name} | {ours or 'no'} | {theirs or 'no'} | {why} |\n".replace("|  |", "| |")


TRIED_HEAD = """
## Clients

What `tests/wire` runs against the broker, unchanged: each produces with every codec that it knows, reads back what it
wrote, produces idempotently, shares a topic between two members of a group of which one leaves, commits, fetches and
resets offsets, and administers topics and groups as far as it can. The same tests pass against Apache Kafka.

| client | version | codecs | assignors of its groups |
|---|---|---|---|
"""


OTHERS = """
Spark's own Kafka connector is run, too: [SPARK.md](SPARK.md), `tests/spark/test_kafka_connector.py`.

Kafka Streams 4.3.0 is run with `at_least_once`, its default (`tests/wire/test_kafka_streams.py`): a word count with its
repartition and changelog topics, shared by two instances of which one takes over what the other had, on the classic
protocol of groups. `exactly_once_v2` is refused (TRANSACTIONAL_ID_AUTHORIZATION_FAILED) until there are transactions.

Web consoles are not run: Kafbat UI, AKHQ and Redpanda Console are had as containers' images, not as packages. What
they ask for their pages is asked with the libraries they are written with, Java's and franz-go's
(`tests/wire/test_consoles.py`).
"""


def clients() -> str:
    """The part about who has been tried."""
    rows = ""
    for each in CLIENTS:
        codecs = "all" if each.codecs == CODECS else ", ".join(each.codecs)
        groups = ", ".join(each.classic)
        if each.consumer:
            groups += f"; of the server (KIP-848): {', '.join(each.consumer)}"
        rows += f"| {each.name} | {each.version(each.folder)} | {codecs} | {groups} |\n"
    scripts = ", ".join(f"`{name}`" for name in SCRIPTS)
    return f"{TRIED_HEAD}{rows}\nThe command line tools of Apache Kafka {VERSION} that are run: {scripts}.\n{OTHERS}"


def page() -> str:
    """The text of docs/COMPATIBILITY.md."""
    served = sum(1 for key in KAFKA if not lacking(key))
    summary = f"**{served} of the {len(KAFKA)} APIs** that Apache Kafka tells are served, at all of its versions.\n\n"
    table = "| key | API | served | Kafka 4.3.0 | |\n|---|---|---|---|---|\n"
    return HEAD + summary + table + "".join(rows()) + clients()
