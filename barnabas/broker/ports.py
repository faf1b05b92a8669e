"""What the core needs of the world. The host supplies the real ones, tests and the simulator their own.

The core is synchronous and never waits. What takes time answers *now or later*:

- `File.read` returns the bytes, or raises `NotYet` with a token. The caller parks on the token and runs the *whole*
  step again when it fires (so leadership and epochs are checked again); whoever parks keeps every token it was given
  until it is through, and as long as a token is held, the same read (file, position, length) answers at once.
- `File.sync`, `Controller.alter_partition`, `Peers.send`, and of `Disk` `write_atomic`, `write_files`, `remove_later`
  and `aside` take a completion and call it exactly once, never from inside the call itself. Completions run on the
  core's thread.

Bytes that `read` returns are **leased**: the returned memoryview keeps what it was cut from alive (the memory map, the
block, the buffer). A file is never changed in place below its end: `truncate` copies the kept prefix to a new file and
swaps it in, and the old bytes go with the last memoryview that was cut from them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, Protocol

from barnabas.protocol.ids import Buffer, TopicPartition

Done = Callable[[OSError | None], None]
"""A completion: None when it went well, else what the disk said."""


def countdown(count: int, done: Done) -> Done:
    """A completion to be called `count` times, which calls `done` at the last, with the first error."""
    errors: list[OSError | None] = []

    def one(error: OSError | None) -> None:
        errors.append(error)
        if len(errors) == count:
            done(next((error for error in errors if error is not None), None))

    return one


class Token(Protocol):
    """A read under way. `on_ready` calls back once when its bytes (or its error) are there, never before it returns."""

    def on_ready(self, callback: Callable[[], None]) -> None:
        """Call back when it is there."""


class NotYet(Exception):
    """The bytes are not in memory: park on `token`, then run the step again, holding the token meanwhile.

    `size`: how many of them this read takes into memory, for whoever asked.
    """

    def __init__(self, token: Token, size: int = 0) -> None:
        super().__init__("read pending")
        self.token = token
        self.size = size


class File(Protocol):
    """An append-only file. `size` counts the bytes appended so far (bytes)."""

    @property
    def path(self) -> str:
        """Its name on the disk; it follows a rename."""

    @property
    def size(self) -> int:
        """Bytes appended so far."""

    def append(self, buffers: Sequence[Buffer]) -> None:
        """Append all buffers, or nothing: on OSError (a full disk) the file has its old size."""

    def expect(self, size: int) -> None:
        """So many bytes are appended next, in pieces, and read as one: room is set aside where that spares a copy."""

    def read(self, position: int, length: int, *, once: bool = False, some: bool = False) -> memoryview:
        """A leased view of up to `length` bytes from `position` (shorter only at the end of the file).

        `once`: who looks through a whole file does not come back, so nothing is kept ready for later reads.
        `some`: of more than 1 MiB it may end after any whole batch, where more would have to be copied together.

        Raises:
            NotYet: the bytes must be fetched from the device first.
            OSError: the device failed.
        """

    def sync(self, done: Done) -> None:
        """Make all bytes appended so far durable, then call `done`."""

    def truncate(self, size: int) -> None:
        """Keep the first `size` bytes; leased views of the old content stay readable."""

    def close(self) -> None:
        """Release the handle; leased views stay readable."""


class Volume(NamedTuple):
    """What a data directory lies on: the directory's path, and the bytes of the volume; -1 where there is none."""

    path: str
    total_bytes: int
    usable_bytes: int


class Disk(Protocol):
    """A tree of files under one data directory. Paths are relative, with `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending; `create` makes an empty file (an existing one is truncated to nothing)."""

    def exists(self, path: str) -> bool:
        """Whether a file or directory of that name is there."""

    def list(self, path: str) -> list[str]:
        """Names in a directory, sorted; empty when it does not exist."""

    def names(self, path: str) -> Iterator[str]:
        """The same one by one, in no order: of the 80,000 that a log may have a step looks at some."""

    def make_dir(self, path: str) -> None:
        """Make a directory and those above it; one that is there stays."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file or directory, replacing a file of that name."""

    def remove(self, path: str) -> None:
        """Remove a file or a directory tree; nothing happens when it is absent."""

    def sync_names(self, directory: str) -> None:
        """Make the names in a directory durable before it returns (start only); "" is the whole disk's own."""

    def remove_later(self, path: str, done: Done) -> None:
        """As `remove`, off the loop's thread: what is large takes its time to go."""

    def load(self, path: str) -> bytes:
        """The whole of a small control file (checkpoint, snapshot, properties).

        Raises:
            FileNotFoundError: there is none.
        """

    def write_atomic(self, path: str, data: bytes, done: Done | None = None, *, durable: bool = True) -> None:
        """Replace a small control file: temporary file, fsync, rename, fsync of the directory, and of what names that.

        With `durable` false nothing is synced: after a power failure the file may be torn, or missing.

        With `done` the work happens off the loop's thread and later calls for the same path win over earlier ones;
        without it, it is finished on return (start and stop only).
        """

    def aside(self, work: Callable[[], None], done: Done) -> None:
        """Do `work`, which touches nothing of the core and raises nothing, off the loop's thread, one after the other.

        For what takes long and lets others run meanwhile (compression).
        """

    def volume(self) -> Volume:
        """Where the directory is, and how much room there is; -1 for what the system does not say."""

    def write_files(self, files: Sequence[tuple[str, bytes]], done: Done) -> None:
        """As `write_atomic` for each of several files (path, content) of one directory, at the cost of one."""


class WallClock(Protocol):
    """Time of day in whole ms since the epoch: stamps records, drives retention, never timers."""

    def now_ms(self) -> int:
        """The time now."""


class Entropy(Protocol):
    """The only source of randomness below the host."""

    def uuid(self) -> bytes:
        """16 random bytes in the form of a version 4 uuid, never all zero, never one Kafka reserves."""

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""


class IsrProposal(NamedTuple):
    """An ISR change put to the controller (AlterPartition)."""

    partition: TopicPartition
    topic_id: bytes
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    epochs: tuple[int, ...] = ()
    """In which of its lives each member was heard when this was first put (KIP-903); -1 fits any, and so does none."""
    recovering: bool = False
    """Whether what was acknowledged may still be lost (`LeaderRecoveryState`); our leaders always say no."""


class IsrAnswer(NamedTuple):
    """The controller's word on a proposal: an error code, or the state that now holds."""

    error_code: int
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    recovering: bool = False


class Controller(Protocol):
    """Where ISR changes are decided. The answer takes effect when it comes, never before."""

    def alter_partition(self, proposal: IsrProposal, done: Callable[[IsrAnswer], None]) -> None:
        """Ask for a change; `done` is called with the answer, now or later."""


class Lane(IntEnum):
    """What a request to another broker is about.

    Each lane is a connection of its own, for a broker serves a connection one request after the other: nothing that
    must come in time waits behind what may wait for long.
    """

    RECORDS = 0
    """What followers fetch."""
    METADATA = 1
    """Fetches of the metadata log, which wait for news; of controllers by each other, too."""
    MEMBERSHIP = 2
    """Registration and heartbeats."""
    CHANGES = 3
    """What rooms ask of the controller: AlterPartition, AllocateProducerIds."""
    FORWARDED = 4
    """What clients asked of a broker that is not the controller, and the topics that they are the first to use."""
    QUORUM = 5
    """Votes, and who leads: what controllers ask of each other."""


class Peers(Protocol):
    """The way to the other brokers of the cluster."""

    def send(
        self,
        broker_id: int,
        request: Any,
        done: Callable[[Any | None], None],
        lane: Lane = Lane.RECORDS,
        version: int | None = None,
    ) -> None:
        """Send a request, in the newest version that both brokers speak, `version` at most.

        What none of these can say is answered with UNSUPPORTED_VERSION.

        `done` is called with the answer, or with None when none will come (later, in any case). Requests on a lane to
        one broker arrive in their order. The bytes of an answer are its receiver's, as long as it likes. On the lane of
        what is forwarded a large answer may come as `context.Sealed`.
        """

    def knock(self, broker_id: int, done: Callable[[bool], None]) -> None:
        """Connect to where a broker listens for brokers, and hang up: `done(refused)`, later.

        True says that its machine is there and that nobody listens; silence for a while is False, as an accept is.
        """
