"""Play scenarios against one cluster: side by side while all brokers are there, then the acts, each once for all."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.cluster.acts import ACTS, Act, Deed, OfCluster, Steps
from tests.conformance.cluster.targets import LETTERS, ClusterTarget
from tests.conformance.cluster.world import Cluster
from tests.conformance.play import Outcome, failed, guarded

WORKERS = 24


def play(
    target: ClusterTarget, scenarios: Iterable[OfCluster], told: Callable[[str], None] = lambda text: None
) -> dict[str, Outcome]:
    """Start the cluster, play, and end it."""
    asked = list(scenarios)
    out: dict[str, Outcome] = {}
    try:
        target.start_all()
        cluster = Cluster(target)
        cluster.wait_brokers(LETTERS)
        told(f"{target.name}: three brokers serve")
        with ThreadPoolExecutor(WORKERS) as pool:
            free = [each for each in asked if each.act is None]
            ended = pool.map(lambda each: guarded(lambda: each.body(cluster)), free)
            out |= dict(zip([each.id for each in free], ended, strict=True))
            told(f"{target.name}: {len(free)} played side by side")
            for act in ACTS:
                of_act = [each for each in asked if each.act is act]
                if of_act:
                    out |= _played(cluster, act, of_act, pool)
                    told(f"{target.name}: {len(of_act)} of the act in which {act.name}")
    finally:
        target.end_all()
    return {each.id: out[each.id] for each in asked}


def _played(cluster: Cluster, act: Act, asked: list[OfCluster], pool: ThreadPoolExecutor) -> dict[str, Outcome]:
    out: dict[str, Outcome] = {}
    going: dict[str, Steps] = {each.id: each.body(cluster) for each in asked}

    def advance(id_: str) -> None:
        try:
            next(going[id_])
        except StopIteration as end:
            out[id_] = Outcome(end.value)
        except Exception as error:
            out[id_] = failed(error)

    def all_advance() -> None:
        list(pool.map(advance, [id_ for id_ in going if id_ not in out]))

    all_advance()
    for deed, letter, serving in act.steps:
        _do(cluster, deed, letter)
        if serving:
            cluster.wait_brokers(serving)
        all_advance()
    assert len(out) == len(asked), f"more steps than the act has: {sorted(set(going) - set(out))}"
    return out


def _do(cluster: Cluster, deed: Deed, letter: str) -> None:
    target = cluster.target
    if deed is Deed.RESTART:
        for other in "CB":
            target.stop(cluster.ids[other])
        target.kill(cluster.ids[letter])  # a voter that stops after all others waits for them in vain
        target.start_all()
        return
    deeds = {
        Deed.PAUSE: target.pause,
        Deed.RESUME: target.resume,
        Deed.STOP: target.stop,
        Deed.KILL: target.kill,
        Deed.START: target.start,
    }
    deeds[deed](cluster.ids[letter])
