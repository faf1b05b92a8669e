"""What a consumer does as a member of a group: commit, leave, call the application. One base of the asyncio form."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.arguments import checked_partitions, milliseconds
from barnabas.client.consume.group.subscription import Call, Subscription
from barnabas.client.consume.group.values import OffsetAndMetadata, Offsets, checked_offsets
from barnabas.client.consume.record import ConsumerRecord
from barnabas.client.loop_thread import Asked
from barnabas.client.questions import Questions
from barnabas.net.errors import ConfigError
from barnabas.protocol.errors import BarnabasError
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.consume.group.group import Group

log = logging.getLogger(__name__)

CLOSE_MS: Final = 30_000
"""How long `close` may take where nobody says (Kafka's default)."""

GivenOffsets = Mapping[TopicPartition, int | OffsetAndMetadata]
OnCommit = Callable[[dict[TopicPartition, OffsetAndMetadata], BarnabasError | None], None]
"""Told what was to be committed, and why it was not."""


class GroupCalls(Questions):
    """The group's part of `AsyncConsumer`."""

    _waiter: asyncio.Future[None] | None
    _asked: list[Asked[Any]]
    _ahead: deque[ConsumerRecord]
    ahead_elsewhere: deque[ConsumerRecord] | None

    def _serve_group(self) -> None:
        if (group := self._core.group) is not None:
            self._client.drivers.append(group.drive)
            group.waiting, group.ahead, group.recall = self._is_waited_for, self._count_ahead, self._recall

    def _is_waited_for(self) -> bool:
        if self._waiter is not None and not self._waiter.done():
            return True
        return any(not each.answer.done for each in self._asked)

    def _count_ahead(self) -> int:
        return len(self._ahead if self.ahead_elsewhere is None else self.ahead_elsewhere)

    def _recall(self) -> None:
        """What an iteration took ahead goes back, for its partitions may go; the iteration asks again, and is told.

        The blocking form's thread takes from the other end meanwhile: each record is taken by one of both.
        """
        ahead, records = self._ahead if self.ahead_elsewhere is None else self.ahead_elsewhere, []
        with suppress(IndexError):
            while True:
                records.append(ahead.pop())
        if records:
            self._core.give_records_back(records[::-1])

    @property
    def in_group(self) -> bool:
        """Whether it has a group."""
        return self._core.group is not None

    # ---- commits --------------------------------------------------------------------------------------------------

    async def commit(self, offsets: GivenOffsets | None = None, timeout: float | None = None) -> None:
        """Commit these offsets, or what was handed out so far; tried again for `timeout` seconds at most.

        An offset is that of the next record to read. While records are iterated over, the one in hand counts as done.

        Raises:
            CommitFailed: the group went on without this consumer.
            KafkaError: REBALANCE_IN_PROGRESS (poll, and try again), or a refusal.
            ClientTimeout: no answer in time (None: `default.api.timeout.ms`).
            ConfigError: there is no group, or something that is no offset.
        """
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def done(error: BarnabasError | None, now_ms: int) -> None:
            if not answer.done():
                answer.set_exception(error) if error is not None else answer.set_result(None)

        wait_ms = milliseconds(timeout)
        given, group = self._to_commit(offsets, "commit")
        deadline_ms = self._client.now_ms() + (self.config.default_api_timeout_ms if wait_ms is None else wait_ms)
        group.commit(given, self._client.now_ms(), done, deadline_ms)
        self._client.pump()
        await answer

    def commit_async(self, offsets: GivenOffsets | None = None, on_commit: OnCommit | None = None) -> None:
        """Commit without waiting, and without a second try: a later commit says more.

        `on_commit(offsets, error)` is called on the consumer's own thread (its loop), and must not wait there.
        """
        given, group = self._to_commit(offsets, "commit_async")

        def done(error: BarnabasError | None, now_ms: int) -> None:
            if on_commit is None:
                if error is not None:
                    log.warning("commit_async: %s", error)
                return
            try:
                on_commit(given, error)
            except Exception:
                log.exception("on_commit failed")
            except BaseException as leaving:
                self._client.leave(leaving)

        group.commit(given, self._client.now_ms(), done)
        self._client.pump()

    def _to_commit(self, offsets: GivenOffsets | None, call: str) -> tuple[Offsets, Group]:
        group = self._group(call)
        self._return_ahead()
        self._client.check_started()
        given = group.positions() if offsets is None else checked_offsets(offsets, call)
        return given, group

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed of each partition, None where it is nothing.

        Raises:
            ClientTimeout: no answer within `timeout` seconds (None: `default.api.timeout.ms`).
            KafkaError: it is refused.
        """
        wait_ms = milliseconds(timeout)
        wanted = checked_partitions(partitions, "committed")
        group = self._group("committed")
        self._core.check_not_closed()
        self._client.check_started()
        answer: asyncio.Future[Offsets] = asyncio.get_running_loop().create_future()

        def done(offsets: Offsets | None, error: BarnabasError | None, now_ms: int) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(offsets or {})

        await self._client.refresh_metadata({where.topic for where in wanted}, wait_ms)
        deadline_ms = self._client.now_ms() + (self.config.default_api_timeout_ms if wait_ms is None else wait_ms)
        group.offsets.committed(wanted, self._client.now_ms(), done, deadline_ms)
        self._client.pump()
        found = await answer
        return {where: found.get(where) for where in wanted}

    def _group(self, call: str) -> Group:
        if self._core.group is None:
            raise ConfigError(f"{call} needs a consumer group: set group.id")
        return self._core.group

    # ---- the end --------------------------------------------------------------------------------------------------

    async def unsubscribe(self, timeout: float | None = None) -> None:
        """Read nothing any more, and leave the group, which shares out anew; what was handed out is committed first."""
        wait_ms = milliseconds(timeout)
        self._return_ahead()
        if self._core.group is not None:
            await self._depart("it unsubscribed", wait_ms)
        else:
            self._core.unsubscribe()

    def begin_to_depart(self, why: str, wait_ms: int | None, *, commit: bool = True) -> int:
        """Leave the group with the turns that follow; until when, at the latest (absolute ms)."""
        deadline_ms = self._client.now_ms() + (CLOSE_MS if wait_ms is None else wait_ms)
        if self._core.group is not None:
            self._core.group.depart(why, deadline_ms, commit=commit)
        return deadline_ms

    def departed(self) -> None:
        """The time to leave is over, or it has left."""
        if self._core.group is not None:
            self._core.group.abandon(self._client.now_ms())
            self._core.unsubscribe()
            self._client.pump()

    async def _depart(self, why: str, wait_ms: int | None, *, commit: bool = True) -> None:
        deadline_ms = self.begin_to_depart(why, wait_ms, commit=commit)
        try:
            await self._depart_until(deadline_ms)
        finally:
            self.departed()

    async def _depart_until(self, deadline_ms: int) -> None:
        group, failed = self._core.group, None
        assert group is not None
        while not group.gone:
            call = group.turn(self._client.now_ms())
            self._client.pump()
            if call is not None:
                try:
                    await self._tell(call)
                except Exception as error:
                    failed = failed or error
            elif not group.gone and not await self._wait(deadline_ms, ending=True):
                break
        if failed is not None:
            raise failed

    async def part(self) -> None:
        """The program ends and nobody closed this: leave, or others wait for `session.timeout.ms`; commit nothing."""
        group = self._core.group
        if group is not None and self._core.closed is None:
            group.subscription = Subscription()  # nobody is called any more
            await self._depart_until(self.begin_to_depart("the program ended", CLOSE_MS, commit=False))

    # ---- the application ------------------------------------------------------------------------------------------

    async def _tell(self, call: Call) -> None:
        """Call the application, which may take its time."""
        try:
            told = call.run()
            if inspect.isawaitable(told):
                await told
        finally:
            self.called()

    def called(self) -> None:
        """The application was told what it had to be."""
        if self._core.group is not None:
            self._core.group.called(self._client.now_ms())
            self._client.pump()

    def calls_now(self) -> list[Call]:
        """Whom the application must hear first, before it is given anything."""
        call = None if self._core.group is None else self._core.group.turn(self._client.now_ms())
        return [] if call is None else [call]

    def calls_or(self, take: Callable[[], list[Any]]) -> list[Any]:
        """Whom the application must hear first, else what there is to give."""
        return self.calls_now() or take()

    def take_back(self, give_back: Callable[[list[Any]], None], found: list[Any]) -> None:
        """It was given to a thread that never got it, because it was interrupted."""
        if isinstance(found[0], Call):
            assert self._core.group is not None
            self._core.group.put_back()
        else:
            give_back(found)

    def departed_now(self) -> list[bool]:
        """Whether it has left its group."""
        return [True] if self._core.group is None or self._core.group.gone else []

    def _return_ahead(self) -> None:
        raise AssertionError("the consumer has it")

    async def _wait(self, deadline_ms: int | None, *, ending: bool = False) -> bool:
        raise AssertionError("the consumer has it")
