"""Each number that docs/SECURITY.md gives in its tables is that of the constant or setting it speaks of.

A row of an API is taken apart: what the code says must stand in it, and no number may be left over, so that one which
nobody compares cannot come in. The table of connections is compared with the settings' own defaults.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from barnabas.broker import introduction
from barnabas.broker.cluster import config_rules, lock_out, mutation_quota, settings_room, topic_rules
from barnabas.broker.cluster import turns as changes
from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.topics import PARTITIONS_PER_OPERATION_MAX
from barnabas.broker.delayed import DESCRIBED_MAX, MANY_KEYS
from barnabas.broker.group import alarms, holdings, subscriptions
from barnabas.broker.group.consumer import advancing, patterns, resolving, upgrading
from barnabas.broker.handlers import (
    api_versions,
    create_topics,
    describe_configs,
    describe_topic_partitions,
    get_telemetry_subscriptions,
    list_offsets,
    metadata,
    produce,
)
from barnabas.broker.handlers.altering import SETTINGS_PER_RESOURCE_MAX
from barnabas.broker.handlers.asked import UNKNOWN_MAX
from barnabas.broker.handlers.line import AT_ONCE_MAX as IN_LINE_MAX
from barnabas.broker.handlers.sessions import PARTITIONS_MAX, PER_CONNECTION_MAX
from barnabas.broker.handlers.steps import SLICE
from barnabas.broker.host import (
    admission,
    channel,
    cluster_secret,
    disk_calls,
    in_flight,
    local,
    logs,
    looking,
    memory,
    peer_channel,
    progress,
    receive,
    refusals,
    relief,
    sockets,
    trim,
    turns,
    web,
)
from barnabas.broker.log import (
    apart,
    checkpoint,
    compaction,
    housekeeping,
    index,
    index_room,
    look,
    manager,
    producer_state,
    recovery,
    removal,
    retention,
    room,
    salvage,
    search,
)
from barnabas.broker.peers.way import SEALED_BYTES_MIN
from barnabas.broker.replica import fetch, fetcher, wide_fetch
from barnabas.broker.replica.manager import SHRUNK_AT_ONCE
from barnabas.broker.replica.shared import UNCHARGED_PARTITIONS_MAX
from barnabas.protocol.api import ApiKey
from barnabas.protocol.compression import BLOCK_BYTES, PART_BYTES_MIN
from barnabas.protocol.kafka import commit_again, encoder, joined_again, produce_again, said_again
from barnabas.protocol.limits import HEADER_TAGS_MAX, REQUEST_BYTES_MAX, TEXT_BYTES_PER_ELEMENT
from barnabas.protocol.native.codec import REQUEST_HEAD_SIZE_MAX
from barnabas.protocol.records.walk import HEADERS_MAX

PAGE = (Path(__file__).parents[2] / "docs" / "SECURITY.md").read_text()
CONFIG = BrokerConfig()
MIB = 1 << 20
AT_ONCE = CONFIG.max_connection_creation_rate * admission.BURST_S
QUOTA = CONFIG.barnabas_controller_mutation_burst, CONFIG.barnabas_controller_mutation_rate
INDEXED = (index.OFFSET_ENTRY_SIZE + index.TIME_ENTRY_SIZE) / CONFIG.log_index_interval_bytes
SMALL_CONTAINER = memory.fitted(CONFIG, 256 * MIB)
KEYS_MOST = lock_out._HIGH["log.cleaner.dedupe.buffer.size"][0]
BURST_MOST = lock_out._HIGH["barnabas.controller.mutation.burst"][0]
RATE_MOST = lock_out._HIGH["barnabas.controller.mutation.rate"][0]
BACKOFF_LEAST = lock_out._LOW["log.cleaner.backoff.ms"][0]
KAFKAS = "2^31-1"
SLICED = f"{SLICE} partitions a step"
PLACES, ALL_PLACES = producer_state.PRODUCERS_MAX, producer_state.PRODUCERS_OF_ALL_MAX
SETTINGS = f"{SETTINGS_PER_RESOURCE_MAX} settings of a resource"

ROWS: dict[int, tuple[str, ...]] = {
    ApiKey.PRODUCE: (
        f"{produce.PARTITIONS_AT_ONCE_MAX} partitions a step",
        f"{look.WORK_AT_ONCE} records looked through, {look.WORK_AT_ONCE // 1000} MB unpacked",
        "1.25 MB written",  # four times as dear
        f"{look.WORK_AT_ONCE // look.ROLL} segments opened",
        f"{look.ERRORS_MAX} records at fault",
        f"records ({CONFIG.barnabas_batch_records_max:,})",
        f"unpacked bytes ({CONFIG.barnabas_batch_bytes_max // MIB} MiB)",
        f"{HEADERS_MAX} headers of a record",
    ),
    ApiKey.FETCH: (
        SLICED,
        f"fewer where they copy {fetch.COPIED_AT_ONCE_MAX >> 20} MiB",
        f"`fetch.max.bytes` of records ({CONFIG.fetch_max_bytes // MIB} MiB)",
        f"({CONFIG.barnabas_fetch_max_wait_ms // 60_000} min)",
        f"{fetch.PARKED_PARTITIONS_MAX} partitions wait in all",
    ),
    ApiKey.LIST_OFFSETS: (
        SLICED,
        f"by time {list_offsets.BY_TIME_AT_ONCE}, of {search.LEARNED_AT_ONCE} segments' files, ",
        f"{search.HEADERS_AT_ONCE} batches' headers",
        f"or {search.BATCHES_AT_ONCE} batches unpacked",
    ),
    ApiKey.METADATA: (f"{SLICE} topics and partitions a step", "300 bytes, and 70 of a partition", "error 3"),
    ApiKey.OFFSET_COMMIT: (SLICED, f"`offset.metadata.max.bytes` ({CONFIG.offset_metadata_max_bytes})"),
    ApiKey.OFFSET_FETCH: (SLICED,),
    ApiKey.JOIN_GROUP: (f"`group.max.size` ({CONFIG.group_max_size}; Kafka's: {KAFKAS})",),
    ApiKey.DESCRIBE_GROUPS: (f"{SLICE} groups, members and 2 KiB of what",),
    ApiKey.LIST_GROUPS: (f"{SLICE} groups a step",),
    ApiKey.API_VERSIONS: (f"{api_versions.SOFTWARE_CHARS_MAX} characters are kept",),
    ApiKey.CREATE_TOPICS: (
        f"{PARTITIONS_PER_OPERATION_MAX} partitions",
        f"{create_topics.TOLD_MAX} different sets of settings",
    ),
    ApiKey.DELETE_RECORDS: (SLICED,),
    ApiKey.INIT_PRODUCER_ID: (
        f"remembers {producer_state.PRODUCERS_MAX} producers",
        f"all partitions {producer_state.PRODUCERS_OF_ALL_MAX} ",
        f"which keeps {producer_state.PRODUCERS_KEPT})",
    ),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (SLICED,),
    ApiKey.DESCRIBE_CONFIGS: (
        f"{describe_configs.SETTINGS_TOLD_MAX} settings told",
        f"or {describe_configs.SETTINGS_MADE_MAX} that no two",
    ),
    ApiKey.ALTER_CONFIGS: (SETTINGS,),
    ApiKey.DESCRIBE_LOG_DIRS: (SLICED,),
    ApiKey.CREATE_PARTITIONS: (f"{PARTITIONS_PER_OPERATION_MAX} new partitions",),
    ApiKey.DELETE_GROUPS: ("20 groups or 250 offsets a step",),
    ApiKey.ELECT_LEADERS: (SLICED,),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (SETTINGS,),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (f"{topic_rules.PARTITIONS_PER_STEP} partitions a step",),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (SLICED,),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (f"{SLICE} users a step",),
    ApiKey.DESCRIBE_PRODUCERS: (f"{SLICE} partitions and producers a step",),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (
        f"`group.consumer.max.size` ({CONFIG.group_consumer_max_size}; Kafka's: {KAFKAS})",
        f"{advancing.NAMES_MAX} topics in all lists",
        f"{advancing.PATTERNS_MAX} patterns of a group (above {resolving.MATCHES_MAX} topics",
        f"{patterns.LENGTH_MAX} characters of a pattern",
        f"{patterns.REPEATS_MAX} repetitions",
        f"{patterns.CLASSES_MAX} classes",
        f"{patterns.PROGRAM_MAX} instructions and {patterns.MEMORY_MAX // MIB} MiB",
        "(RE2)",
        f"more than {subscriptions.NAMES_MAX} topics",
        f"more than {upgrading.MEMBERS_AT_ONCE} members or {upgrading.BYTES_AT_ONCE // 1024} KiB",
        "(16 x members + partitions above 10000)",
    ),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (f"{SLICE} groups and members a step",),
    ApiKey.PUSH_TELEMETRY: (f"{get_telemetry_subscriptions.METRICS_BYTES_MAX // MIB} MiB of metrics",),
    ApiKey.LIST_CONFIG_RESOURCES: (f"{SLICE} topics a step",),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (f"{describe_topic_partitions.PAGE_MAX} partitions an answer, {SLICE} a step",),
}
"""What stands in the last column of an API's row. Few have no constant: what one is made of says their number."""

PROSE = (
    f"A request without records has {REQUEST_BYTES_MAX // MIB} MiB at most",
    f"({REQUEST_HEAD_SIZE_MAX // MIB} MiB of head in the native dialect)",
    f"{TEXT_BYTES_PER_ELEMENT} bytes of a\nname count as one element",
    f"a header has {HEADER_TAGS_MAX} tagged fields",
    f"| a connection | {producer_state.CONNECTION_MAX} | {producer_state.CONNECTION_OF_ALL_MAX:,}, and",
    f"| producers (see below) | {producer_state.PRODUCERS_OF_ALL_MAX:,} of",
    f"| segments (see below) | {room.SEGMENTS_MAX:,} |",
    f"| indexes of segments (see below) | {index_room.INDEX_BYTES_MAX // MIB} MiB; ",
    f"they get an entry for {index_room.INDEX_INTERVAL_MAX // 1024} KiB",
    f"looks at {compaction._LOOKED_AT_PER_STEP} of them, and renames the files of {retention._SEGMENTS_PER_STEP}",
    f"its segments are let go\n  of {removal._CLOSED_PER_STEP} in a step, and {removal._NAMES_PER_LOOK} ",
    f"| files that wait for their removal | {removal.DOOMED_MAX:,};",
    f"to\n  {BURST_MOST:,} and {RATE_MOST:,} at most (a start takes more)",
    f"`log.cleaner.backoff.ms` is {BACKOFF_LEAST} at least",
    f"for `flush.ms` every {housekeeping._FLUSH_LOOK_MS_MIN} ms at most",
    f"| groups and what they have committed (see below) | {holdings.BYTES_MAX // MIB} MiB, half by one address",
    f"| settings (see below) | {settings_room.ALL_BYTES_MAX // MIB} MiB",
    f"({CONFIG.log_cleaner_dedupe_buffer_size // MIB} MiB; {KEYS_MOST // MIB} MiB is the most that can be set while",
    f"{settings_room.VALUE_BYTES_MAX:,} bytes a value, {settings_room.RESOURCE_BYTES_MAX // 1024} KiB a resource",
    f"once a client would owe more than {mutation_quota.OWED_MAX:,}",
    f"(the members of one group have {holdings.MEMBERS_BYTES_MAX // MIB} MiB)",
    f"counts {holdings.GROUP_BYTES:,} bytes",
    f"an id that was given out {holdings.PENDING_BYTES}",
    f"All of them remember {PARTITIONS_MAX} partitions",
    f"({apart.RECORDS_AT_ONCE} records, {apart.BYTES_AT_ONCE // MIB} MiB unpacked",
    f" {apart.BYTES_AT_ONCE // BLOCK_BYTES + 1} parts, {apart.PACKED_AT_ONCE // 1024} KiB packed",
    f"a part (a member of gzip, a block of snappy) for each {'KiB' if PART_BYTES_MIN == 1024 else PART_BYTES_MIN} of",
    f"A batch of more than {look.LARGE // MIB} MiB",
    f"have {turns.TURN_MS_MAX} ms at a time",
    f"requests of {turns.LARGE_BYTES // 1024} KiB and more",
    f"after the loop last looked at its sockets\n  those of {turns.MEDIUM_BYTES // 1024} KiB and more do",
    f"whoever holds {relief.SMALL_BYTES // 1024} KiB or more",
    f"{admission.STRANGERS_MAX} at a time may be at it",
    f"{logs.MESSAGE_CHARS_MAX:,} characters are written",
    f"| names and beginnings of requests that came of late | {produce_again.PREFIXES_MAX:,} of each kind",
    f"| names and beginnings of requests that came of late | {commit_again.PREFIXES_MAX:,} of each kind",
    f"{said_again.FRAMES_MAX:,} of each of four APIs, {said_again.FRAME_BYTES_MAX} bytes each",
    f"| a client id at an address | {PLACES // 2:,} | {ALL_PLACES // 2:,}, and",
    f"| an address | {PLACES * 9 // 10:,} | {ALL_PLACES * 9 // 10:,}, and",
    f"(from {in_flight.CHARGED_BYTES_MIN} bytes on;",
    f" {turns.LATE_MS} to 10 ms after the loop last looked",
    f"after {turns.VERY_LATE_MS} to 30 ms all",
    f"A path of more than {local._PATH_BYTES_MAX} bytes has none",
    f"below {lock_out._LOW['max.connections'][0]} for each of them",
    f"`message.max.bytes` below {lock_out._LOW['message.max.bytes'][0] // 1024} KiB",
    f"The file holds {introduction.SECRET_BYTES_MIN} to {cluster_secret.SECRET_BYTES_MAX} bytes",
    f"Before that no frame has more than {receive.STRANGERS_BYTES_MAX // 1024} KiB",
    f"Before that no frame has more than {introduction.REQUEST_BYTES_MAX // 1024} KiB",
    f"must be over in\n  {peer_channel.INTRODUCTION_MS_MAX // 1000} seconds",
    f"is its limit: {CONFIG.queued_max_request_bytes // MIB} MiB",
    f"must bring {relief.TURN_BYTES_PER_S // MIB} MiB a second",
    f"({trim.GROWN_BYTES_MIN // MIB} MiB and more)",
    f"no more than {trim.HELD_BYTES_MAX // MIB} MiB",
    f"is sent on there as it came, from {SEALED_BYTES_MIN // 1024} KiB on",
    f"make {changes.AT_ONCE_MAX} records, each change counted as {changes.OPERATION} more",
    f"`barnabas.controller.mutation.burst` ({CONFIG.barnabas_controller_mutation_burst})",
    f"`barnabas.controller.mutation.rate` ({CONFIG.barnabas_controller_mutation_rate})",
    f"an active segment of less than {room.CROWDED_BYTES_MIN // MIB} MiB",
    f"lie at most {index_room.INDEX_INTERVAL_MAX // 1024} KiB",
    f"{look._CONVERTED_AT_ONCE // 1024} KiB to compress anew",
    f"no higher than level {look._LEVEL_MAX} of gzip and zstd",
    f"an offset\n  {holdings.OFFSET_BYTES} with its metadata",
    f"consumes {holdings.NAME_BYTES} with its name",
    f"Of these topics {subscriptions.NAMES_MAX:,} names",
    f"unpacks to more than {salvage.UNPACKED_BYTES_MAX // MIB} MiB",
    f"{UNKNOWN_MAX} that nobody knows among them",
    f"of each list {looking.STATE_ITEMS} items",
    f"({looking.STATE_ITEMS_MAX:,} at most)",
    f"({AT_ONCE:,}), of one address half of both ({AT_ONCE // 2:,})",
    f"It has {admission.LOCALS_MAX:,}\n  connections, or an eighth of the files",
    f"the mutation quota: {QUOTA[0]:,}, then {QUOTA[1]} a second",
    f"(limit - socket.request.max.bytes) * 3 / 4)`, {memory.account_for(CONFIG).low // MIB} MiB by default",
    f"request of {turns.MEDIUM_BYTES // 1024} KiB or more, other than records",
    f"Fetches are answered with {fetch.SHORT_BYTES // 1024} KiB of records",
    f"what the account and\n{memory._BROKER_BYTES // MIB} MiB for the broker leave",
    f"({SMALL_CONTAINER.barnabas_batch_bytes_max // MIB} MiB in 256 MiB; below ",
    f"MiB in 256 MiB; below {memory._BATCH_BYTES_MIN // MIB} MiB never)",
    f"quarter of `ulimit -n`, {disk_calls._HANDLES_MAX:,} at most",
    f"({encoder.ELEMENTS_PER_STEP} elements or {encoder.BYTES_PER_STEP // MIB} MiB)",
    f"({encoder.ELEMENTS_PER_STEP} elements or {in_flight.WRITTEN_PER_STEP // MIB} MiB)",
    f"{channel.WRITE_BYTES_MAX // 1024} KiB of its answers, {in_flight.CHARGED_BYTES_MIN} bytes of its request",
    f"Frames above {receive.GROWN_BYTES_MAX // MIB} MiB are\nreceived in a map",
    f"a follower looks at {fetcher.SLICE:,} partitions of one leader in a step",
    f"({fetcher.ELEMENTS_MAX:,} partitions and topics; more take turns)",
    f"logs go {manager._LOGS_PER_STEP} in a step",
    f"A fetch of {MANY_KEYS} partitions and more",
    f"takes in {fetch.LEARNED_AT_ONCE_MAX} partitions of a follower's fetch",
    f"than {SLICE} elements ({describe_configs.DESCRIBED_PER_STEP} resources of DescribeConfigs",
    f"A start opens {recovery._OPENED_PER_STEP} in a step",
    f"steps of {alarms.SPENT_MAX}\n  members",
    f"of each kind, {commit_again.FRAME_BYTES_MAX} bytes each",
    f"of each kind, {joined_again.FRAME_BYTES_MAX} bytes each",
    f"take {index.OFFSET_ENTRY_SIZE} bytes for each `index.interval.bytes`",
    f"and {index.TIME_ENTRY_SIZE} where the largest",
    f"rises with them: {100 * INDEXED:.1f} % with its default",
    f"`max.message.bytes` {config_rules._GROUPS_BYTES_MIN // MIB} MiB at least",
    f"{holdings.BYTES_MAX // MIB} MiB in all, half of that by one",
    f"{settings_room.ALL_BYTES_MAX // MIB} MiB all of them together",
    f"Where all together pass {index_room.INDEX_BYTES_MAX // MIB} MiB",
)
WORDS = (
    (admission.BURST_S, "ten seconds' worth at once"),
    (PER_CONNECTION_MAX, "One connection has ten"),
    (web.ANSWERS_MAX, "Sixteen answers are under way at once"),
    (refusals.ADDRESS_LINES_MAX, "five times a minute for an address"),
    (refusals.LINES_MAX, "fifty times\nin all"),
    (logs.KIND_LINES_MAX, "a hundred times a minute"),
    (relief.AT_ONCE_MAX, "Fifty connections are ended in one step"),
    (relief.TURN_MS // 1000, "a second, after five seconds"),
    (relief.STUCK_MS // 1000, "when nobody has had a turn for ten"),
    ((progress.CLOSED_MS_MAX + progress._LOOK_MS_MAX) // 1000, "goes within six seconds"),
    ((progress.UNHEARD_MS + progress._LOOK_MS_MAX) // 1000, "within seven seconds if it holds 64 KiB"),
    (UNCHARGED_PARTITIONS_MAX + 1, "(from nine on)"),
    (sockets.AT_ONCE, "of whom sixteen come in between two looks"),
    (int(trim.LOOK_S), "looks every two seconds"),
    (in_flight.DECODING_MS_MAX, "took more than two milliseconds"),
    (IN_LINE_MAX, "two are served at a\ntime"),
    (metadata.FIRST_USE_WEIGHT, "one made on first use takes three"),
    (SHRUNK_AT_ONCE, "A leader looks at a thousand ISRs in a step"),
    (wide_fetch.LEFT_AT_ONCE_MAX, "leaves all the lists where it waited, a thousand in a\nstep"),
    (checkpoint._LINES_PER_STEP, "are written a thousand lines in a step"),
    (DESCRIBED_MAX, "Of the keys of an operation that waits ten are told"),
)
SAID = {
    2: ("two",),
    3: ("three",),
    5: ("five",),
    6: ("six",),
    7: ("seven",),
    9: ("nine",),
    10: ("ten",),
    16: ("sixteen",),
    50: ("fifty",),
    100: ("hundred",),
    1000: ("thousand",),
}


def rows() -> dict[int, str]:
    """The last column of each API's row."""
    found = re.findall(r"^\| \w+ \((\d+)\) \| \d+ \|(.*)\|$", PAGE, re.MULTILINE)
    return {int(key): text for key, text in found}


@pytest.mark.parametrize("key", ROWS, ids=lambda key: ApiKey(key).name)
def test_a_row_says_what_the_code_says_and_no_other_number(key: int) -> None:
    text = rows()[key]
    for phrase in ROWS[key]:
        assert phrase in text
        text = text.replace(phrase, "")
    assert not re.findall(r"\d+", text), text


def test_no_row_with_a_number_is_left_out() -> None:
    assert {key for key, text in rows().items() if re.search(r"\d", text)} == set(ROWS)


@pytest.mark.parametrize("phrase", PROSE)
def test_the_page_says_what_the_code_says(phrase: str) -> None:
    assert phrase in PAGE


@pytest.mark.parametrize(("number", "phrase"), WORDS)
def test_numbers_in_words_are_those_of_the_code(number: int, phrase: str) -> None:
    assert phrase in PAGE
    assert any(word in phrase.lower() for word in SAID[number])


def test_the_table_of_connections_has_the_settings_defaults() -> None:
    table = PAGE.partition("## Connections")[2].partition("\n\n- ")[0]
    told = re.findall(r"^\| `([a-z.]+)` \| ([\d,]+) \|", table, re.MULTILINE)
    assert len(told) == table.count("\n| `")
    for name, default in told:
        value: Any = getattr(CONFIG, name.replace(".", "_"))
        assert int(default.replace(",", "")) == value, name


def test_the_sum_of_what_no_connection_holds_is_that_of_its_table() -> None:
    table = PAGE.partition("| what | bound | at most |")[2].partition("\n\n")[0]
    each = [int(told) for told in re.findall(r"\| (\d+) MB\b", table)]
    assert len(each) == 10, "topics have a bound of another kind"
    assert f"That is {sum(each)} MB" in PAGE
