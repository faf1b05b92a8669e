"""A broker inside a program: `aio.Broker` on the running loop, `Broker` on a thread of its own.

Neither touches the event-loop policy, signal handlers or the garbage collector.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from barnabas.broker.config import load
from barnabas.broker.host.assemble import Assembly, new_loop

T = TypeVar("T")
Topics = Mapping[str, int] | Iterable[str]


def _assemble(
    data_dir: str | os.PathLike[str] | None, host: str, port: int, config: Mapping[str, Any] | None, topics: Topics
) -> Assembly:
    settings = {name: _text(value) for name, value in (config or {}).items()}
    address = f"[{host}]" if ":" in host else host
    settings.setdefault("listeners", f"PLAINTEXT://{address}:{port}")
    named = topics.items() if isinstance(topics, Mapping) else ((name, None) for name in topics)
    made = [name if count is None else f"{name}:{count}" for name, count in named]
    if made:
        settings["barnabas.topics"] = ", ".join([*filter(None, [settings.get("barnabas.topics")]), *made])
    directory = data_dir or settings.get("log.dirs") or settings.get("log.dir")
    loaded = load(overrides=settings, overrides_from="config")
    return Assembly(loaded.config, None if directory is None else os.fspath(directory))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


class AsyncBroker:
    """A broker on the running event loop.

    async with barnabas.aio.Broker(topics={"flights": 4}) as broker:
        ...  # connect to broker.bootstrap_servers

    In memory unless `data_dir` names a directory. `port` 0 takes a free one. `config` holds settings by Kafka's names
    (`{"num.partitions": 3}`); `topics` maps names to numbers of partitions, or lists names.

    Raises:
        ConfigError: a setting that nobody knows, or a value that cannot be used.
        BarnabasError: a port in use, or a data directory that cannot be served from (from `start`, too).
    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        config: Mapping[str, Any] | None = None,
        topics: Topics = (),
    ) -> None:
        self._assembly = _assemble(data_dir, host, port, config, topics)

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: `host:port`."""
        return self._assembly.bootstrap_servers

    @property
    def port(self) -> int:
        """The port that was bound."""
        return self._assembly.listening[0].endpoint.port

    def snapshot(self) -> dict[str, Any]:
        """All that can be looked at, as plain values (what `/state` shows)."""
        return self._assembly.host.snapshot()

    async def start(self) -> AsyncBroker:
        """Serve; returns once it does."""
        await self._assembly.start()
        return self

    async def stop(self) -> None:
        """Stop serving. A broker does not start twice."""
        await self._assembly.stop()

    async def __aenter__(self) -> AsyncBroker:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Broker:
    """A broker on a thread of its own: it serves once this returns, also inside a running event loop (notebooks).

    with barnabas.Broker(topics={"flights": 4}) as broker:
        ...  # connect to broker.bootstrap_servers

    Takes what `aio.Broker` takes, and raises what it raises. `close` stops it; so does forgetting it.
    """

    def __init__(
        self,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        config: Mapping[str, Any] | None = None,
        topics: Topics = (),
    ) -> None:
        self._inner = AsyncBroker(data_dir=data_dir, host=host, port=port, config=config, topics=topics)
        self._loop = new_loop()
        thread = threading.Thread(target=_run, args=(self._loop,), name="barnabas-broker", daemon=True)
        thread.start()
        try:
            _call(self._loop, self._inner.start())
        except BaseException:
            _finish(self._loop, thread)
            raise
        self._close: Callable[[], Any] = weakref.finalize(self, _stop, self._loop, thread, self._inner)

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: `host:port`."""
        return self._inner.bootstrap_servers

    @property
    def port(self) -> int:
        """The port that was bound."""
        return self._inner.port

    def snapshot(self) -> dict[str, Any]:
        """All that can be looked at, as plain values (what `/state` shows)."""

        async def look() -> dict[str, Any]:
            return self._inner.snapshot()

        found: dict[str, Any] = _call(self._loop, look())
        return found

    def close(self) -> None:
        """Stop serving; a second call does nothing."""
        self._close()

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    try:
        loop.run_forever()
    finally:
        loop.close()


def _call(loop: asyncio.AbstractEventLoop, work: Any) -> Any:
    return asyncio.run_coroutine_threadsafe(work, loop).result()


def _finish(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    thread.join()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, inner: AsyncBroker) -> None:
    if threading.current_thread() is thread:  # forgotten, and found by the garbage collector on our own thread
        loop.create_task(inner.stop()).add_done_callback(lambda _: loop.stop())
        return
    _call(loop, inner.stop())
    _finish(loop, thread)
