"""What is done to the cluster in a directory of this machine, whose processes `cluster up` or `cluster start` began.

    verb      a broker that runs     one that is paused           one that does not run
    stop      ends in good order     goes on, and ends            refused
    kill      ends at once           ends at once                 refused
    pause     is held                refused                      refused
    resume    refused                goes on                      refused
    start     refused                refused: resume it           serves again
    remove    ends, and is forgotten, as long as nothing lies on it, in all three

`add` and `grow` (`cluster_grow`) are of the cluster.

Each returns when it is so.
"""

from __future__ import annotations

import select
import shlex
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from barnabas.broker.host.data_dir import DataDirLock, DataDirUnusable
from barnabas.cli.cluster_files import (
    HOST,
    Place,
    Plan,
    controllers_of,
    default_directory,
    grown,
    plan_of,
    settings_of,
    shrunk,
)
from barnabas.cli.cluster_processes import (
    LOOK_S,
    READY_S_MAX,
    STOP_S_MAX,
    Running,
    end,
    end_all,
    find,
    gone,
    last_words,
    launch,
    stem,
    tell,
)
from barnabas.cli.speak import say, some
from barnabas.protocol.errors import BarnabasError

EARLY_S: Final = 2.0
"""What a broker that cannot start at all has ended within, as far as anybody waits for that."""
LAST_S_MAX: Final = 10.0
"""Who is started last waits so long for the others, after each that serves."""


class Refused(BarnabasError):
    """What cannot be done to a broker as it is now."""


def _command(verb: str, node_id: int, directory: Path) -> str:
    """What to type next; with the directory, where it is not the one that is taken without."""
    where = "" if directory == default_directory() else f" --dir {shlex.quote(str(directory))}"
    return f"barnabas cluster {verb} {node_id}{where}"


def steer(verb: str, directory: Path, node_id: int | None) -> int:
    """Do it.

    Raises:
        ConfigError: there is no such cluster, or no such broker in it.
        Refused: the broker is not in a state for it.
    """
    plan = plan_of(directory)
    if verb == "add":
        start(directory, [grown(directory, plan)])
    elif verb == "grow":
        from barnabas.cli.cluster_grow import grow

        grow(directory, plan)
    elif verb == "remove":
        assert node_id is not None
        _remove(directory, plan, node_id)
    elif node_id is None:
        _stop_all(directory, [one.node_id for one in plan.brokers])
    elif verb == "start":
        place = plan.place(node_id)
        running = find(directory, node_id)
        if running is not None:
            hint = f"; {_command('resume', node_id, directory)} lets it go on" if running.paused else ""
            raise Refused(f"broker {node_id} is {'paused' if running.paused else 'running'} already{hint}")
        start(directory, [place], may_be_early=True)
    else:
        plan.place(node_id)
        running = find(directory, node_id)
        if running is None:
            raise Refused(f"broker {node_id} does not run; {_command('start', node_id, directory)} starts it")
        _VERBS[verb](directory, node_id, running)
    return 0


def _stop(directory: Path, node_id: int, running: Running) -> None:
    end(directory, [node_id])
    say(f"broker {node_id} is stopped{', it was paused' if running.paused else ''}")


def _kill(directory: Path, node_id: int, running: Running) -> None:
    tell(running.pid, signal.SIGKILL)
    gone(directory, {node_id: running}, STOP_S_MAX)
    say(f"broker {node_id} is killed; {_command('start', node_id, directory)} starts it again")


def _pause(directory: Path, node_id: int, running: Running) -> None:
    if running.paused:
        raise Refused(f"broker {node_id} is paused already")
    tell(running.pid, signal.SIGSTOP)
    _until(lambda: (now := find(directory, node_id)) is None or now.paused)
    say(f"broker {node_id} is paused; {_command('resume', node_id, directory)} lets it go on")


def _resume(directory: Path, node_id: int, running: Running) -> None:
    if not running.paused:
        raise Refused(f"broker {node_id} is not paused")
    tell(running.pid, signal.SIGCONT)
    _until(lambda: (now := find(directory, node_id)) is None or not now.paused)
    say(f"broker {node_id} goes on")


_VERBS: Final = {"stop": _stop, "kill": _kill, "pause": _pause, "resume": _resume}


def _remove(directory: Path, plan: Plan, node_id: int) -> None:
    from barnabas.cli.heard import hear_clients
    from barnabas.client.admin import Admin
    from barnabas.protocol.errors import ErrorCode, KafkaError

    plan.place(node_id)
    if node_id in controllers_of(directory):
        raise Refused(f"broker {node_id} is a controller, which keeps the metadata, and cannot be removed")
    hear_clients()
    with Admin(bootstrap_servers=plan.bootstrap_servers) as admin:
        topics = admin.describe_all_topics(internal=True).values()
        left = sum(node_id in part.replicas for topic in topics for part in topic.partitions)
        if left:
            server = plan.bootstrap_servers.partition(",")[0]
            raise Refused(
                f"broker {node_id} has {some(left, 'partition')}; barnabas cluster drain {node_id} -b {server} moves "
                "them to others"
            )
        end(directory, [node_id])
        try:
            admin.unregister_broker(node_id)
        except KafkaError as refusal:
            if refusal.code != ErrorCode.BROKER_ID_NOT_REGISTERED:  # it was forgotten before
                raise
    shrunk(directory, plan, node_id)
    say(f"broker {node_id} is removed; what it had stays in {stem(directory, node_id)}")


def _stop_all(directory: Path, node_ids: list[int]) -> None:
    """All of them; then `up` ends, too, and lets go of the directory."""
    running = [node_id for node_id in node_ids if find(directory, node_id) is not None]
    if not running:
        raise Refused(f"no broker of the cluster in {directory} runs")
    end_all(directory, node_ids)
    _until(lambda: _is_free(directory))
    say(f"{len(running)} of {len(node_ids)} brokers were running, all are stopped; data: {directory}")


def _is_free(directory: Path) -> bool:
    try:
        DataDirLock(str(directory)).release()
    except DataDirUnusable:
        return False
    return True


def start(directory: Path, places: Sequence[Place], *, may_be_early: bool = False, last: Sequence[Place] = ()) -> None:
    """Start brokers, all at once, that outlive this command; they are waited for until they say that they serve.

    `may_be_early`: not where most controllers do not run, so that all can be started one after the other. `last`: who
    is started when the others serve, or, where they cannot without these, a little later.

    Raises:
        Refused: one of them cannot.
    """
    started = [(place, launch(directory, place, settings_of(directory))) for place in places]
    if last:
        _hear([process for _, process in started])
        started += [(place, launch(directory, place, settings_of(directory))) for place in last]
    for place, process in started:
        if not (may_be_early and _is_early(directory, place, process)):
            _wait_ready(directory, place, process)


def _hear(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Wait until all of these have something to say, or one has ended, but not for long; it is left to be read."""
    silent = [one.stdout for one in processes if one.stdout is not None]
    while silent:
        heard, _, _ = select.select(silent, [], [], LAST_S_MAX)
        if not heard or any(one.poll() is not None for one in processes):
            return
        silent = [one for one in silent if one not in heard]


def _is_early(directory: Path, place: Place, process: subprocess.Popen[str]) -> bool:
    """Whether it has to wait for controllers that do not run, which is said; not where it has ended at once."""
    controllers = controllers_of(directory)
    others = [one for one in controllers if one != place.node_id]  # its own command line may not be there yet
    away = [one for one in others if (found := find(directory, one)) is None or found.paused]
    if 2 * len(away) < len(controllers):
        return False
    with suppress(subprocess.TimeoutExpired):
        process.wait(EARLY_S)
        return False
    other = find(directory, away[0])
    verb = "start" if other is None else "resume"
    say(
        f"broker {place.node_id} runs, and serves once a majority of the controllers "
        f"({', '.join(map(str, controllers))}) does; {_command(verb, away[0], directory)} is next"
    )
    assert process.stdout is not None
    process.stdout.close()
    return True


def _wait_ready(directory: Path, place: Place, process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        process.kill()

    watchdog = threading.Timer(READY_S_MAX, give_up)
    watchdog.start()
    serves = process.stdout.readline()
    watchdog.cancel()
    if not serves:
        process.wait()
        process.stdout.close()
        if late.is_set():
            raise Refused(f"broker {place.node_id} {_too_late(directory, place.node_id)}")
        raise Refused(f"broker {place.node_id} cannot serve: {last_words(directory, place.node_id)}")
    say(f"broker {place.node_id} serves on {HOST}:{place.port}; it says more in {stem(directory, place.node_id)}.log")


def _too_late(directory: Path, node_id: int) -> str:
    """Why a broker that has not ended by itself does not serve; where its controllers run, its log knows more."""
    controllers = controllers_of(directory)
    running = [one for one in controllers if one != node_id and find(directory, one) is not None]
    ended, of = (
        f"did not serve within {READY_S_MAX:g} s and was ended",
        f"of the controllers ({', '.join(map(str, controllers))})",
    )
    if 2 * (len(running) + (node_id in controllers)) > len(controllers):
        return f"{ended}, and {of} enough others run ({len(running)}): see {stem(directory, node_id)}.log for why"
    where = "" if directory == default_directory() else f" --dir {shlex.quote(str(directory))}"
    return (
        f"{ended}: {of} {len(running)} others run, and nobody serves without a majority of them; once none runs, "
        f"barnabas cluster up{where} starts all"
    )


def _until(true: Callable[[], bool]) -> None:
    """Wait until it is so, but not for ever: what follows tells what is."""
    pause = threading.Event()
    for _ in range(round(STOP_S_MAX / LOOK_S)):
        if true():
            return
        pause.wait(LOOK_S)
