"""What a worker keeps open between its tasks."""

from __future__ import annotations

from barnabas.spark_bridge.idle import Idle


class Client:
    def __init__(self) -> None:
        self.closed = False

    def close(self, timeout: float | None = None) -> None:
        assert timeout == 0, "the task that put it off is not to wait for it"
        self.closed = True


def test_the_next_task_with_the_same_settings_gets_it_and_nobody_else() -> None:
    idle, client = Idle[Client](), Client()
    idle.put({"a": 1, "b": 2}, client)
    assert idle.take({"a": 1}) is None
    assert idle.take({"b": 2, "a": 1}) is client
    assert idle.take({"a": 1, "b": 2}) is None, "it is in use now"
    assert not client.closed


def test_of_many_settings_only_the_last_few_stay_open() -> None:
    idle = Idle[Client](kept_max=2)
    clients = [Client() for _ in range(4)]
    for number, client in enumerate(clients):
        idle.put({"bootstrap.servers": f"h:{number}"}, client)
    assert [client.closed for client in clients] == [True, True, False, False]
    assert idle.take({"bootstrap.servers": "h:0"}) is None
    assert idle.take({"bootstrap.servers": "h:2"}) is clients[2]
