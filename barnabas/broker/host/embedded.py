"""A broker inside a program, or a cluster: `aio.Broker` on the running loop, `Broker` on a thread of its own.

Neither touches the event-loop policy, signal handlers or the garbage collector.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, Unpack, cast

from barnabas.broker.config import BrokerConfig, ConfigError, keys_of, load
from barnabas.broker.host.assemble import Assembly, new_loop
from barnabas.net.host.forks import belongs_to_parent, leave_behind, tell_child
from barnabas.protocol.errors import BarnabasError

if TYPE_CHECKING:
    from barnabas.broker.config.settings import BrokerSettings
    from barnabas.broker.host.several import Node, Several

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
    brokers: int | None,
) -> Assembly | Several:
    settings = _settings(config, named)
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
    if data_dir is not None:
        directory = os.fspath(data_dir)
    if brokers is not None:
        from barnabas.broker.host.several import Several  # rarely needed

        settings = {name: value for name, value in settings.items() if name not in ("log.dirs", "log.dir")}
        return Several(brokers, settings, directory, host, port)
    if "listeners" not in settings:
        host = host or "127.0.0.1"
        settings["listeners"] = f"PLAINTEXT://{f'[{host}]' if ':' in host else host}:{port or 0}"
    elif host is not None or port is not None:
        raise ConfigError(f"listeners={settings['listeners']}: host and port say it, too; drop one of them")
    loaded = load(overrides=settings, overrides_from="config")
    return Assembly(loaded.config, directory)


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

    `brokers=3` makes it a cluster of three: records are kept three times, and acks=all waits for two of them. `brokers`
    has a handle for each, by node id. Of three or more three are controllers; each has a directory below `data_dir`.
    `broker_rack="a,b,c"` names a rack for each.

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
        brokers: int | None = None,
        **settings: Unpack[BrokerSettings],
    ) -> None:
        told = _assemble(config, settings, data_dir, host, port, topics, brokers)
        self._assembly = cast("Assembly", told)  # all that is asked of it here, `Several` has, too
        self._state = _NOT_STARTED
        tell_child(self)

    def forked(self) -> None:
        """In the child of a fork: the parent serves."""
        self._state = belongs_to_parent("broker")
        self._assembly.forked()

    @property
    def bootstrap_servers(self) -> str:
        """What clients connect to: `host:port`, of a cluster's brokers with commas."""
        return self._started().bootstrap_servers

    @property
    def port(self) -> int:
        """The port that was bound; of a cluster the first broker's."""
        return self._started().port

    def snapshot(self) -> dict[str, Any]:
        """All that can be looked at, as plain values (what `/state` shows); of a cluster `{"brokers": ...}`, by id."""
        return self._started().snapshot()

    @property
    def brokers(self) -> Mapping[int, Node]:
        """The brokers of a cluster, by node id.

        Raises:
            BarnabasError: it is no cluster: it was made without `brokers=`.
        """
        nodes = getattr(self._started(), "nodes", None)
        if nodes is None:
            raise BarnabasError("this broker stands alone; brokers=3 makes a cluster of three")
        return dict(nodes)

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
        brokers: int | None = None,
        **settings: Unpack[BrokerSettings],
    ) -> None:
        self._inner = AsyncBroker(
            config, data_dir=data_dir, host=host, port=port, topics=topics, brokers=brokers, **settings
        )
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
        """What clients connect to: `host:port`, of a cluster's brokers with commas."""
        return self._inner.bootstrap_servers

    @property
    def port(self) -> int:
        """The port that was bound; of a cluster the first broker's."""
        return self._inner.port

    def snapshot(self) -> dict[str, Any]:
        """All that can be looked at, as plain values (what `/state` shows); of a cluster `{"brokers": ...}`, by id."""
        self._inner._check_owned()

        async def look() -> dict[str, Any]:
            return self._inner.snapshot()

        found: dict[str, Any] = _call(self._loop, look())
        return found

    @property
    def brokers(self) -> Mapping[int, Member]:
        """The brokers of a cluster, by node id: `broker.brokers[2].kill()`.

        Raises:
            BarnabasError: it is no cluster: it was made without `brokers=`.
        """
        return {node_id: Member(self, node) for node_id, node in self._inner.brokers.items()}

    def close(self) -> None:
        """Stop serving; a second call does nothing."""
        self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Member:
    """One broker of a cluster inside a program. It keeps its ports, and what it has stored, while it does not serve."""

    def __init__(self, cluster: Broker, node: Node) -> None:
        self._cluster = cluster
        self._node = node

    @property
    def node_id(self) -> int:
        """Its id."""
        return self._node.node_id

    @property
    def port(self) -> int:
        """Where it listens for clients."""
        return self._node.port

    @property
    def bootstrap_servers(self) -> str:
        """It alone."""
        return self._node.bootstrap_servers

    @property
    def is_running(self) -> bool:
        """Whether it serves."""
        return self._node.is_running

    def start(self) -> None:
        """Serve again; returns once it does. Nothing is done where it does already.

        Where most controllers are away nobody can serve: it returns at once, and serves once enough of them are
        started, whose start waits for it, too.

        Raises:
            BarnabasError: the cluster is closed, the broker cannot serve, or it was ended before it did.
        """
        self._do(self._node.start())

    def stop(self) -> None:
        """Stop in good order: others lead what it led. Nothing is done where it does not serve."""
        self._do(self._node.stop())

    def kill(self) -> None:
        """End as a process does that is killed. Nothing is done where it does not serve."""
        self._do(self._node.kill())

    def snapshot(self) -> dict[str, Any]:
        """What its `/state` shows.

        Raises:
            BarnabasError: it does not serve.
        """

        async def look() -> dict[str, Any]:
            return self._node.snapshot()

        found: dict[str, Any] = self._do(look())
        return found

    def _do(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            self._cluster._inner._started()
            if self._cluster._loop.is_closed():
                raise BarnabasError("the cluster is closed; make a new one")
        except BarnabasError:
            work.close()
            raise
        return _call(self._cluster._loop, work)


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
