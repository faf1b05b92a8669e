"""`barnabas broker` as a process: its loop, its signals, its garbage collector, its exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys

from barnabas.broker.config import BrokerConfig
from barnabas.broker.config.listeners import between_brokers
from barnabas.broker.config.quorum import asks_for_voters
from barnabas.broker.host.assemble import Assembly, new_loop
from barnabas.broker.host.collector import Collector
from barnabas.broker.host.disk_calls import raise_open_files_max
from barnabas.broker.host.trim import Trim

logger = logging.getLogger(__name__)


def run(config: BrokerConfig, data_dir: str | None, *, stored_settings: bool = True) -> None:
    """Serve until SIGTERM, SIGINT or SIGHUP (but not under `nohup`); a second signal ends the process at once.

    Raises:
        DirectoryFailed: nothing can be written to its data directory any more.
        BarnabasError: the broker could not start; nothing was changed.
    """
    raise_open_files_max()
    loop = new_loop()
    try:
        if between_brokers(config) is not None and asks_for_voters(config):
            loop.run_until_complete(_find_voters(config))
            if asks_for_voters(config):  # a signal came first
                return
        loop.run_until_complete(_serve(Assembly(config, data_dir, stored_settings=stored_settings)))
    finally:
        loop.close()


async def _find_voters(config: BrokerConfig) -> None:
    """Ask who the controllers are, until somebody tells it or a signal comes."""
    from barnabas.broker.host.cluster_secret import read_secret  # of a cluster's brokers alone
    from barnabas.broker.host.voters import find_voters

    secret = read_secret(config.barnabas_cluster_secret_file)
    loop = asyncio.get_running_loop()
    leaving = loop.create_task(asked_to_end(loop).wait())
    finding = loop.create_task(find_voters(config, secret))
    await asyncio.wait((finding, leaving), return_when=asyncio.FIRST_COMPLETED)
    leaving.cancel()
    if finding.done():
        finding.result()
    finding.cancel()
    await asyncio.wait((finding,))


async def _serve(assembly: Assembly) -> None:
    loop = asyncio.get_running_loop()
    asked = asked_to_end(loop)
    collector, trim = Collector(), Trim(assembly.host, assembly.release_pages)
    starting = loop.create_task(assembly.start())
    leaving, failing = loop.create_task(asked.wait()), loop.create_task(assembly.host.failed.wait())
    await asyncio.wait((starting, leaving), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():  # a signal came while logs were being recovered: they are as they were
        starting.cancel()
        failing.cancel()
        await asyncio.wait((starting, failing))
        return
    try:
        starting.result()
        collector.begin(loop)
        trim.begin()
        assembly.host.vigil.allow(assembly.config.barnabas_busy_poll_us)
        _tell(_banner(assembly))
        await asyncio.wait((leaving, failing), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        failing.cancel()
        collector.end()
        trim.end()
    if assembly.host.failure is not None:
        assembly.release()
        raise assembly.host.failure
    await assembly.stop()
    gc.freeze()  # the process ends: nothing needs to be looked through and taken apart before
    logger.info("stopped")


def asked_to_end(loop: asyncio.AbstractEventLoop) -> asyncio.Event:
    """What the first signal that ends a process sets; a second one ends the process at once."""
    asked = asyncio.Event()

    def on_signal(number: int) -> None:
        if asked.is_set():
            os._exit(128 + number)
        asked.set()

    for number in _ending():
        if sys.platform == "win32":  # its loops know no signals
            signal.signal(number, lambda number, _frame: loop.call_soon_threadsafe(on_signal, number))
        else:
            loop.add_signal_handler(number, on_signal, number)
    return asked


def _ending() -> list[int]:
    """The signals that end a process."""
    numbers: list[int] = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    return numbers


def _banner(assembly: Assembly) -> str:
    where = "in memory" if assembly.data_dir is None else assembly.data_dir
    return f"barnabas: serving on {', '.join(assembly.addresses)}; data: {where}"


def _tell(line: str) -> None:
    """Say it, and serve on where nobody listens any more: who started the broker may have left."""
    try:
        print(line, flush=True)
    except OSError:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - else the end would try once more


def fail(message: str) -> int:
    """Say what is wrong in one sentence; the exit code for it."""
    print(f"barnabas: {message}", file=sys.stderr)
    return 2
