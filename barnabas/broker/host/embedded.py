"""A broker inside a program: `aio.Broker` on the running loop, `Broker` on a thread of its own.

Neither touches the event-loop policy, signal handlers or the garbage collector.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack

from barnabas.broker.config import BrokerConfig, ConfigError, keys_of, load
from barnabas.broker.host.assemble import Assembly, new_loop
from barnabas.net.host.forks import belongs_to_parent, leave_behind, tell_child
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.broker.config.settings import BrokerSettings

Topics = Mapping[str, int] | Iterable[str]

_NOT_STARTED: Final = "not started: await start() first, or use it with `async with`"
_STARTED: Final = "started"
_CLOSED: Final = "closed"


def _assemble(
    config: Mapping[str, Any] | None,
    named: Mapping[str, Any],
    data_dir: str | os.PathLike[str] | None,
    host: str | None,
    port: int | None,
    topics: Topics,
) -> Assembly:
    settings = _settings(config, named)
    if "listeners" not in settings:
        host = host or "127.0.0.1"
        settings["listeners"] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port or 0}"
    elif host is not None or port is not None:
        raise ConfigError(f"listeners={settings['listeners']}: host and port say it, too; drop one of them")
    if isinstance(topics, str):
        raise ConfigError(f"topics: {topics!r} is a string; give a list of names, or names with numbers of partitions")
    counts = topics.items() if isinstance(topics, Mapping) else ((name, None) for name in topics)
    made = [name if count is None else f"{name}:{count}" for name, count in counts]
    if made:
        settings["barnabas.topics"] = ", ".join([*filter(None, [settings.get("barnabas.topics")]), *made])
    settings.setdefault("group.initial.rebalance.delay.ms", "0")
    directory = settings.get("log.dirs") or settings.get("log.dir")
    if directory is not None and data_dir is not None:
        raise ConfigError(f"log.dirs={directory}: data_dir says it, too; drop one of them")
    loaded = load(overrides=settings, overrides_from="config")
    return Assembly(loaded.config, directory if data_dir is None else os.fspath(data_dir))


def _settings(config: Mapping[str, Any] | None, named: Mapping[str, Any]) -> dict[str, str]:
    """Settings by Kafka's names, as the client takes them: keywords and names with underscores too, None is unset."""
    if config is not None and not isinstance(config, Mapping):
        raise ConfigError(
            f"config: {config!r} ({type(config).__name__}) is no mapping of settings; where it listens is said by "
            "host= and port=, where its data is by data_dir="
        )
    attributes = {key.attribute: name for name, key in keys_of(BrokerConfig).items()}
    settings: dict[str, str] = {}
    for given, value in [*(config or {}).items(), *named.items()]:
        name = attributes.get(given) or (given if "." in given else given.replace("_", "."))
        if value is None:
            continue
        if name in settings:
            raise ConfigError(f"{name} is given twice; drop one of them")
        settings[name] = _text(value)
    return settings


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

    In memory unless `data_dir` names a directory. It listens at `host` (127.0.0.1) and `port` (a free one). `topics`
    maps names to numbers of partitions, or lists names. Settings carry Kafka's names: `config` is a mapping
    (`{"num.partitions": 3}`), and keywords are the same names with underscores (`num_partitions=3`). None means unset.

    Raises:
        ConfigError: a setting that nobody knows, or a value that cannot be used.
        BarnabasError: a port in use, or a data directory that cannot be served from (from `start`, too); what is
            asked of it before it was started.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str | None = None,
        port: int | None = None,
        topics: Topics = (),
        **settings: Unpack[BrokerSettings],
    ) -> None:
        self._assembly = _assemble(config, settings, data_dir, host, port, topics)
        self._state = _NOT_STARTED
        tell_child(self)

    def forked(self) -> None:
        """In the child of a fork: the parent serves."""
        self._state = belongs_to_parent("broker")
        self._assembly.forked()

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: `host:port`."""
        return self._started().bootstrap_servers

    @property
    def port(self) -> int:
        """The port that was bound."""
        return self._started().port

    def snapshot(self) -> dict[str, Any]:
        """All that can be looked at, as plain values (what `/state` shows)."""
        return self._started().host.snapshot()

    def _started(self) -> Assembly:
        if self._state == _NOT_STARTED:
            raise BarnabasError(f"the broker was {_NOT_STARTED}")
        self._check_owned()
        return self._assembly

    def _check_owned(self) -> None:
        """Refuse what only the parent of a fork can do.

        Raises:
            BarnabasError: this is the child.
        """
        if self._state not in (_NOT_STARTED, _STARTED, _CLOSED):
            raise BarnabasError(self._state)

    async def start(self) -> Self:
        """Serve; returns once it does. A broker that was closed does not start again."""
        self._check_owned()
        if self._state == _CLOSED:
            raise BarnabasError("the broker is closed; make a new one")
        if self._state == _NOT_STARTED:
            self._state = _CLOSED  # what fails to start has given back what it held
            await self._assembly.start()
            self._state = _STARTED
        return self

    async def close(self) -> None:
        """Stop serving; a second call does nothing, nor does one in the child of a fork."""
        before = self._state
        if before in (_NOT_STARTED, _STARTED):
            self._state = _CLOSED
        if before == _STARTED:
            await self._assembly.stop()
        elif before == _NOT_STARTED:
            self._assembly.release()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class Broker:
    """A broker on a thread of its own: it serves once this returns, also inside a running event loop (notebooks).

    with barnabas.Broker(topics={"flights": 4}) as broker:
        ...  # connect to broker.bootstrap_servers

    Takes what `aio.Broker` takes, and raises what it raises. `close` stops it; so does forgetting it.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        host: str | None = None,
        port: int | None = None,
        topics: Topics = (),
        **settings: Unpack[BrokerSettings],
    ) -> None:
        self._inner = AsyncBroker(config, data_dir=data_dir, host=host, port=port, topics=topics, **settings)
        self._loop = new_loop()
        thread = threading.Thread(target=_run, args=(self._loop,), name="barnabas-broker", daemon=True)
        thread.start()
        try:
            _call(self._loop, self._inner.start())
        except BaseException:
            _finish(self._loop, thread)
            raise
        self._close = weakref.finalize(self, _stop, self._loop, thread, self._inner)
        tell_child(self)

    def forked(self) -> None:
        """In the child of a fork: the thread is not here."""
        self._close.detach()
        leave_behind(self._loop)

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
        self._inner._check_owned()

        async def look() -> dict[str, Any]:
            return self._inner.snapshot()

        found: dict[str, Any] = _call(self._loop, look())
        return found

    def close(self) -> None:
        """Stop serving; a second call does nothing."""
        self._close()

    def __enter__(self) -> Self:
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
        loop.create_task(inner.close()).add_done_callback(lambda _: loop.stop())
        return
    _call(loop, inner.close())
    _finish(loop, thread)
