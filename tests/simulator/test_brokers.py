"""Several brokers in virtual time, without clients: what they know of each other."""

from __future__ import annotations

from barnabas.simulator.brokers import Brokers
from barnabas.simulator.network import Network
from barnabas.simulator.plan import CONTROLLER, SEVERAL, draw
from barnabas.simulator.world import SECOND, World

SESSION_NS = 9 * SECOND  # the default of broker.session.timeout.ms, by a right clock


def epoch_of_controller(brokers: Brokers, node_id: int) -> int:
    """Which life of the controller's broker another one knows of."""
    core = brokers[node_id].core
    assert core is not None
    return core.image.broker_epoch(CONTROLLER)


def test_metadata_is_asked_for_again_within_a_session_where_the_controllers_machine_lost_power() -> None:
    """A fetch that waited there has no answer any more, and no connection is told."""
    world = World("1")
    network = Network(world)
    network.patience_ns = 1000 * SECOND
    plan = draw("1", brokers=SEVERAL, controllers=1)
    plan.broker.clear()
    brokers = Brokers(world, network, plan, lambda _: None)
    for broker in brokers.all:
        broker.start()
    assert world.run(60 * SECOND, lambda: all(broker.serves for broker in brokers.all))
    world.run(world.now_ns + 3 * SECOND)
    before = epoch_of_controller(brokers, 2)

    brokers[CONTROLLER].lose_power()
    world.run(world.now_ns + SECOND)
    brokers[CONTROLLER].start()
    assert world.run(world.now_ns + 10 * SECOND, lambda: brokers[CONTROLLER].serves)
    heard = lambda: all(epoch_of_controller(brokers, one) > before for one in (2, 3))  # noqa: E731
    assert world.run(world.now_ns + SESSION_NS, heard)
    for broker in brokers.all:
        broker.end_process()
