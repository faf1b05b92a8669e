"""Records as text and back: formats, JSON, delimiters, places, through `produce` and `consume` and back again."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas import Admin, Consumer, Producer
from barnabas.cli import consume
from barnabas.cli.formats import BadInput, Given, as_json, compiled, escaped, header, of_json
from barnabas.cli.lines import pieces
from barnabas.cli.places import Place, place
from barnabas.cli.progress import Progress, size
from barnabas.client.consume.record import ConsumerRecord
from tests.cli.process import BOUND_S, clean_environment
from tests.cli.terminal import Terminal, call

EVERY_BYTE = bytes(range(256))


def record(**changed: Any) -> ConsumerRecord:
    one = ConsumerRecord("t", 1, 42, 1700, 0, b"k", b"v", (("a", b"1"), ("b", None), ("a", b"")))
    return one._replace(**changed)


@pytest.mark.parametrize(("given", "waits_ms"), [((), "30000"), (("-X", "default.api.timeout.ms=5"), "5")])
def test_a_reader_waits_until_others_lead_what_a_silent_broker_led(
    monkeypatch: pytest.MonkeyPatch, given: tuple[str, ...], waits_ms: str
) -> None:
    """The active controller's session and its succession are 9 to 12 s; a command gave up after 10."""
    asked: list[dict[str, Any]] = []

    def opened(*, config: dict[str, Any]) -> Any:
        asked.append(config)
        raise BadInput("seen")

    monkeypatch.setattr(consume, "_check_topics", lambda given: [])
    monkeypatch.setattr("barnabas.client.consumer.Consumer", opened)
    assert call("consume", "t", "-e", *given)[0]
    assert [str(one["default.api.timeout.ms"]) for one in asked] == [waits_ms]


# ---- as text ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        (r"%t [%p] @%o %T: %k=%s (%K, %S)\n", b"t [1] @42 1700: k=v (1, 1)\n"),
        (r"%h", b"a=1,b,a="),
        (r"%R%s", b"\0\0\0\x01v"),
        (r"100%%\t\x00\\\0", b"100%\t\0\\\0"),
        ("", b""),
        ("\u20ac%s", "\u20acv".encode()),
    ],
)
def test_a_format_in_the_manner_of_kcat(text: str, printed: bytes) -> None:
    assert compiled(text, b"")(record()) == printed


def test_null_is_empty_or_a_word_and_its_length_is_less_than_nothing() -> None:
    tombstone = record(value=None, key=None)
    assert compiled("%k|%s|%K|%S|%R", b"")(tombstone) == b"||-1|-1|\xff\xff\xff\xff"
    assert compiled("%k|%s", b"NULL")(tombstone) == b"NULL|NULL"
    assert compiled("%k|%s", b"NULL")(record(value=b"", key=b"")) == b"|"


@pytest.mark.parametrize(
    ("text", "said"), [("%q", "%q stands for nothing"), ("5%", "% stands"), (r"\q", r"\\q stands")]
)
def test_a_format_that_means_nothing(text: str, said: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=said):
        compiled(text, b"")
    code, _, wrong = call("consume", "t", "-f", text, "-b", "127.0.0.1:1")
    assert (code, wrong.count("\n")) == (2, 1)
    assert wrong.startswith("barnabas: argument --format/-f: ")


def test_headers_as_they_are_typed() -> None:
    assert (header("a=1=2"), header("a="), header("a")) == (("a", b"1=2"), ("a", b""), ("a", None))
    with pytest.raises(argparse.ArgumentTypeError, match="write NAME=VALUE"):
        header("=1")


@pytest.mark.parametrize(
    "value", [None, b"", b"text", "\u20ac\u2028".encode(), EVERY_BYTE, b"\xff", b'{"base64": "eA=="}']
)
def test_json_carries_every_byte_both_ways(value: bytes | None) -> None:
    told = record(key=value, value=value, headers=(("h", value), ("h", b"2"), ("\udcff", b"")))
    line = as_json(told)
    assert line.count(b"\n") == 1
    found = of_json(line)
    assert (found.key, found.value, list(found.headers)) == (value, value, list(told.headers))
    assert (found.partition, found.timestamp_ms) == (1, 1700)
    assert json.loads(line)["timestamp_type"] == "CreateTime"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"", "it is no JSON: "),
        (b"[" * 100_000, "it is no JSON: "),
        (b"\xff", "it is no JSON: "),
        (b"[1]", "it is no JSON object"),
        (b'{"key": "k"}', 'it has no value; write "value": null'),
        (b'{"value": 1}', "value is a JSON int: write a string"),
        (b'{"value": {"a": 1}}', "value is a JSON dict"),
        (b'{"value": {"base64": "?"}}', "value is no base64"),
        (b'{"value": "\\ud800"}', "value holds half of a character"),
        (b'{"value": "", "Key": ""}', "'Key' is nothing a record has; it has key, value"),
        (b'{"value": "", "headers": "a=1"}', "headers: write"),
        (b'{"value": "", "headers": [["a"]]}', "headers: write"),
        (b'{"value": "", "headers": [[null, "a"]]}', "a header's name cannot be null"),
        (b'{"value": "", "headers": {"a": 1}}', "header a is a JSON int"),
        (b'{"value": "", "partition": "1"}', "partition is '1', and no whole number"),
        (b'{"value": "", "timestamp_ms": true}', "timestamp_ms is True, and no whole number"),
    ],
)
def test_a_line_that_is_no_record(line: bytes, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        of_json(line)
    assert str(caught.value).startswith(said)


def test_headers_of_an_object_and_a_partition_that_the_key_decides() -> None:
    given = of_json(b'{"value": "v", "headers": {"a": "1"}, "partition": -1, "offset": 7, "topic": "other"}')
    assert given == Given(b"v", None, [("a", b"1")], None, None)


KCAT = shutil.which("kcat") or shutil.which("kafkacat")


@pytest.mark.skipif(KCAT is None, reason="kcat is not installed: ./dev tools installs it")
def test_what_kcat_prints(at: Terminal) -> None:
    """The same words print the same bytes. What is empty is NULL for its -Z, too, and so is a header of no value."""
    topic = at.name()
    at.good("topics", "create", topic)
    at.raw("produce", topic, "-K", ":", "-H", "a=1", "-H", "b=", given=b"k:v\nk\xff:\x00v\n")
    at.raw("produce", topic, "-Z", "-k", "k", given=b"\n")
    for words in (
        ["-f", r"%t [%p] @%o %T: %k=%s (%K, %S) %h %R %%\n\x41"],
        ["-Z", "-f", "%k=%s|"],
        ["-K", ":", "-D", r"\t", "-Z"],
        ["-o", "-2"],
        ["-o", "1", "-c", "1"],
    ):
        begin = [] if "-o" in words else ["-o", "beginning"]
        command = [str(KCAT), "-b", at.server, "-C", "-t", topic, "-p", "0", "-q", "-e", *begin, *words]
        theirs = subprocess.run(command, capture_output=True, timeout=BOUND_S, check=True).stdout
        assert at.raw("consume", topic, "-e", *words) == theirs, words


# ---- pieces ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("data", "delimiter", "found"),
    [
        (b"a\nb\n", b"\n", [b"a", b"b"]),
        (b"a\nb", b"\n", [b"a", b"b"]),
        (b"a\r\n\n\0\n", b"\n", [b"a\r", b"", b"\0"]),
        (b"", b"\n", []),
        (b"aXYbXXYYc", b"XY", [b"a", b"bX", b"Yc"]),
        (b"a\nb\n", b"", [b"a\nb\n"]),
    ],
)
def test_pieces_are_the_same_however_they_come(data: bytes, delimiter: bytes, found: list[bytes], step: int) -> None:
    chunks = iter([data[at : at + step] for at in range(0, len(data), step)])
    assert list(pieces(lambda _: next(chunks, b""), delimiter)) == found


def test_a_piece_without_end_is_refused_before_the_memory_is_full() -> None:
    asked = 0

    def read(count: int) -> bytes:
        nonlocal asked
        asked += 1
        return b"x" * count if asked > 1 else b"first\n"

    found = pieces(read, b"\n", 200_000)
    assert next(found) == b"first"
    with pytest.raises(BadInput, match=r"record 2 is longer than 200000 bytes; is the delimiter right \(-D\)"):
        next(found)
    assert asked < 10


def test_escapes() -> None:
    assert escaped(r"\n\t\r\0\\\x41b") == b"\n\t\r\0\\Ab"
    with pytest.raises(argparse.ArgumentTypeError, match=r"\\ stands for nothing"):
        escaped("\\")


# ---- places ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("beginning", Place("beginning")),
        ("end", Place("end")),
        ("42", Place("offset", 42)),
        ("-10", Place("before", 10)),
        ("+10", Place("after", 10)),
        ("s@86400000", Place("since", 86_400_000)),
        ("e@1970-01-02", Place("until", 86_400_000)),
        ("@1970-01-02T02:00+02:00", Place("since", 86_400_000)),
    ],
)
def test_places(text: str, found: Place) -> None:
    assert place(text) == found


@pytest.mark.parametrize("text", ["", "soon", "--1", "1.5", "s@", "s@soon", "x@5", "\u0661", "9" * 19, "s@-1"])
def test_what_is_no_place_is_answered_with_those_there_are(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="write beginning, end, an offset"):
        place(text)


# ---- there and back --------------------------------------------------------------------------------------------------


def test_lines_keys_headers_and_tombstones(at: Terminal) -> None:
    topic = at.name()
    at.good("topics", "create", topic)
    assert at.raw("produce", topic, "-K", ":", "-Z", "-H", "a=1", "-H", "b", given=b"k:v\n:\nplain\nx:\n") == b""
    printed = at.raw("consume", topic, "-e", "-Z", "-f", r"%k %s %h\n")
    assert printed == b"k v a=1,b\nNULL NULL a=1,b\nNULL plain a=1,b\nx NULL a=1,b\n"
    assert at.raw("consume", topic, "-e") == b"v\n\nplain\n\n"
    assert at.raw("consume", topic, "-e", "-K", "/", "-D", r"\0") == b"k/v\0/\0/plain\0x/\0"


def test_every_byte_comes_back(at: Terminal) -> None:
    topic, copy = at.name(), at.name()
    at.good("topics", "create", topic, copy)
    at.raw("produce", topic, "-D", "", "-k", "all", given=EVERY_BYTE * 3)
    assert at.raw("consume", topic, "-e", "-D", "") == EVERY_BYTE * 3
    lines = at.raw("consume", topic, "-e", "--json")
    at.raw("produce", copy, "--json", given=lines)
    theirs, ours = (json.loads(at.raw("consume", each, "-e", "-J")) for each in (topic, copy))
    assert theirs | {"topic": copy} == ours
    assert at.raw("produce", topic, given=b"") == b""


def test_json_lines_say_partition_and_time_unless_the_call_does(at: Terminal) -> None:
    topic = at.name()
    at.good("topics", "create", topic, "-p", "2", "--set", "retention.ms=-1")
    line = b'{"value": "v", "partition": 1, "timestamp_ms": 5}\n\n'
    at.raw("produce", topic, "--json", "-k", "k", "-H", "h=1", given=line)
    at.raw("produce", topic, "--json", "-p", "0", given=line)
    printed = at.raw("consume", topic, "-e", "-f", r"%p %T %k %h\n")
    assert sorted(printed.splitlines()) == [b"0 5  ", b"1 5 k h=1"]


def test_a_count_ends_both(at: Terminal) -> None:
    topic = at.name()
    at.good("topics", "create", topic)
    at.raw("produce", topic, "-c", "3", given=b"1\n2\n3\n4\n")
    assert at.raw("consume", topic, "-e") == b"1\n2\n3\n"
    assert at.raw("consume", topic, "-o", "beginning", "-n", "2") == b"1\n2\n"


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_codecs_and_settings_of_the_client(at: Terminal, codec: str) -> None:
    topic = at.name()
    at.good("topics", "create", topic)
    at.raw("produce", topic, "-z", codec, "-X", "linger.ms=50", given=b"x\n" * 100)
    assert at.raw("consume", topic, "-e", "-X", "check.crcs=true") == b"x\n" * 100
    assert at.bad("consume", topic, "-e", "-X", "linger.ms=5", code=2).startswith(
        "linger.ms is a setting of the producer"
    )


@pytest.mark.parametrize(
    ("where", "values"),
    [
        (["-o", "beginning"], "0123456789"),
        (["-o", "end"], ""),
        (["-o", "3"], "3489"),
        (["-o", "99"], ""),
        (["-o", "-2"], "3489"),
        (["-o", "-99"], "0123456789"),
        (["-o", "+4"], "49"),
        (["-o", "s@1003"], "3456789"),
        (["-o", "s@1970-01-01T00:00:01.008"], "89"),
        (["-o", "s@9999"], ""),
        (["-o", "e@1007"], "0123456"),
        (["-o", "s@1003", "-o", "e@1007"], "3456"),
        (["-p", "1"], "56789"),
        (["-p", "1", "-o", "2"], "789"),
        (["-p", "0", "-p", "1", "-o", "-1"], "49"),
    ],
)
def test_where_to_begin_and_where_to_end(at: Terminal, tens: str, where: list[str], values: str) -> None:
    assert "".join(sorted(at.raw("consume", tens, "-e", "-D", "", *where).decode())) == values


def test_a_time_to_end_at_ends_without_the_end(at: Terminal) -> None:
    """Partition 0 has no record so young: it is followed until one comes."""
    topic = at.topic()
    process = start("consume", topic, "-o", "beginning", "-o", "e@1008", "-D", "", "-b", at.server)
    assert process.stdout is not None
    read = b""
    while len(read) < 8:
        read += os.read(process.stdout.fileno(), 100)
    with Producer(at.server) as producer:
        producer.send(topic, b"x", partition=0, timestamp_ms=1007)
        producer.send(topic, b"y", partition=0, timestamp_ms=1008)
    rest, wrong = process.communicate(timeout=BOUND_S)
    assert (process.returncode, wrong, sorted(read + rest)) == (0, b"", sorted(b"01234567x"))


@pytest.fixture(scope="module")
def tens(server: str) -> str:
    """Partition 0 has values 0 to 4, and 1 has 5 to 9, of timestamps 1000 to 1009."""
    return Terminal(server).topic()


def test_topics_and_partitions_that_are_not_there(at: Terminal, tens: str) -> None:
    assert at.bad("consume", "misspelt", "-e") == "there is no topic misspelt; make it: barnabas topics create misspelt"
    assert at.bad("consume", tens, "-p", "7") == f"topic {tens} has 2 partitions, from 0 on; there is no 7"
    assert ["misspelt"] not in at.good("topics", "list")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["consume", "t", "-o", "1", "-o", "2"], "-o: there are two places to begin at"),
        (["consume", "t", "-g", "g", "-o", "5"], "-o with --group says where to go on"),
        (["consume", "t", "-g", "g", "-p", "5"], "-p with --group: the group shares out"),
        (["consume", "t", "--json", "-K", ":"], "-K and -D are for neither --format nor --json"),
        (["consume", "t", "--json", "-f", "%s"], "argument --format/-f: not allowed with argument --json/-J"),
        (["consume", "t", "-c", "0"], "argument --count/-c/-n: 0: write a whole number from 1 on"),
        (["produce", "t", "--json", "-Z"], "-K, -Z and -D '' are for lines that are no JSON"),
        (["produce", "t", "-K", ""], "-K: the text between key and value cannot be empty"),
        (["produce", "t", "-p", "-2"], "argument --partition/-p: -2: write a partition's number, or -1"),
        (["consume", "t", "-X", "group_id=g"], "argument --setting/-X: group_id=g: consume has --group for it"),
        (["consume", "t", "-X", "key.deserializer=json"], "argument --setting/-X: key.deserializer=json: records are"),
        (["produce", ""], "argument TOPIC: a topic's name cannot be empty"),
    ],
)
def test_a_wrong_call_asks_no_broker(words: list[str], said: str) -> None:
    code, told, wrong = call(*words, "-b", "127.0.0.1:1")
    assert (code, told) == (2, b"")
    (line,) = wrong.splitlines()
    assert line.startswith(f"barnabas: {said}")


def test_input_that_is_no_record_is_told_with_its_line_and_what_was_sent(at: Terminal) -> None:
    topic = at.name()
    at.good("topics", "create", topic)
    said = at.bad("produce", topic, "--json", given=b'{"value": "1"}\n{"value": 2}\n', code=2)
    assert said == (
        'line 2: value is a JSON int: write a string, null or {"base64": "..."}; 1 record before it was sent'
    )
    assert at.raw("consume", topic, "-e") == b"1\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"value": "2", "timestamp_ms": -5}', "record 2: timestamp_ms: -5 (int) is no time"),
        (b'{"value": "2", "partition": -7}', "record 2: partition -7 is negative"),
        (
            b'{"value": "2", "headers": [[{"base64": "/w=="}, ""]]}',
            "record 2: headers: the name '\\udcff' (str) cannot be",
        ),
    ],
)
def test_a_record_that_cannot_be_is_told_with_its_number(at: Terminal, line: bytes, said: str) -> None:
    topic = at.name()
    at.good("topics", "create", topic)
    told = at.bad("produce", topic, "--json", given=b'{"value": "1"}\n' + line, code=2)
    assert told.startswith(said)
    assert told.endswith("; 1 record before it was sent")


def test_a_partition_that_is_not_there_is_not_waited_for(at: Terminal, tens: str) -> None:
    assert at.bad("produce", tens, "-p", "7", given=b"x") == f"topic {tens} has 2 partitions, from 0 on; there is no 7"


def test_a_record_that_is_refused_is_counted_with_the_reason(at: Terminal) -> None:
    topic = at.name()
    at.good("topics", "create", topic, "--set", "max.message.bytes=1000")
    said = at.bad("produce", topic, given=b"x" * 2000 + b"\n")
    assert said.startswith("1 of 1 record was not delivered: MESSAGE_TOO_LARGE(10)")
    assert said.endswith("; send less at once, or raise max.message.bytes of the topic")
    said = at.bad("produce", topic, "-X", "max.request.size=1500", given=b"x" * 2000 + b"\n", code=2)
    assert "max.request.size" in said


# ---- processes -------------------------------------------------------------------------------------------------------


def start(*words: str) -> subprocess.Popen[bytes]:
    program = "import sys; from barnabas.cli import main; sys.exit(main())"
    return subprocess.Popen(
        [sys.executable, "-c", program, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(),
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_follows_prints_at_once_and_leaves_quietly(at: Terminal, number: signal.Signals, code: int) -> None:
    """A group's member leaves its group on the way: the next one need not wait for its session to end."""
    topic, group = at.topic(), at.name()
    process = start("consume", topic, "-g", group, "-o", "beginning", "-D", "", "-b", at.server)
    assert process.stdout is not None
    read = b""
    while len(read) < 10:
        read += os.read(process.stdout.fileno(), 100)
    with Admin(at.server) as admin:
        while sum(admin.group_lag(group).values()):
            pass  # what was printed is committed
    process.send_signal(number)
    _, wrong = process.communicate(timeout=BOUND_S)
    assert (process.returncode, wrong) == (code, b"")
    assert at.good("groups", "describe", group)[1] == ["no", "members"]


def test_lines_are_sent_as_they_come(at: Terminal) -> None:
    topic = at.name()
    at.good("topics", "create", topic)
    process = start("produce", topic, "-b", at.server)
    assert process.stdin is not None
    process.stdin.write(b"first\nsec")
    process.stdin.flush()
    with Consumer(topic, config=at.server, auto_offset_reset="earliest") as consumer:
        assert [bytes(each.value) for each in consumer.poll(BOUND_S)] == [b"first"]
        _, wrong = process.communicate(b"ond", timeout=BOUND_S)
        assert (process.returncode, wrong) == (0, b"")
        assert [bytes(each.value) for each in consumer.poll(BOUND_S)] == [b"second"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_who_types_may_leave_quietly(at: Terminal, number: signal.Signals, code: int) -> None:
    topic = at.name()
    at.good("topics", "create", topic)
    process = start("produce", topic, "-b", at.server)
    assert process.stdin is not None
    with Consumer(topic, config=at.server, auto_offset_reset="earliest") as consumer:
        process.stdin.write(b"typed\n")
        process.stdin.flush()
        assert [bytes(each.value) for each in consumer.poll(BOUND_S)] == [b"typed"]
    process.send_signal(number)
    _, wrong = process.communicate(timeout=BOUND_S)
    assert (process.returncode, wrong) == (code, b"")


def test_a_reader_that_leaves_ends_a_follower_quietly(at: Terminal) -> None:
    topic = at.topic()
    process = start("consume", topic, "-o", "beginning", "-b", at.server)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    with Producer(at.server) as producer:  # it hears of it with the next record
        while process.poll() is None:
            producer.send(topic, b"more").result(BOUND_S)
    assert process.stderr is not None
    assert (process.returncode, process.stderr.read()) == (0, b"")
    process.stderr.close()
    cast("Any", process.stdin).close()


# ---- progress --------------------------------------------------------------------------------------------------------


def test_progress_is_told_on_a_terminal_alone_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    screen = SimpleNamespace(isatty=lambda: True, write=told.append, flush=lambda: None)
    now = 100.0
    monkeypatch.setattr("barnabas.cli.progress.time.monotonic", lambda: now)
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress() as progress:
        assert not progress.due()
        now += 1
        assert progress.due()
        progress.tell("half")
        assert not progress.due()
    assert "".join(told) == "\r\x1b[Khalf\r\x1b[K"
    now += 10
    assert not Progress(on=False).due()
    screen.isatty = lambda: False
    quiet = Progress()
    now += 10
    assert not quiet.due()


def test_sizes() -> None:
    assert [size(each) for each in (999, 3_400_000, 5 * 10**15)] == ["999 B", "3.4 MB", "5000.0 TB"]
