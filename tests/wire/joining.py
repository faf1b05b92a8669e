"""What kafka-python needs of whoever polls it, so that it is in its group in the end."""

from typing import Any


def poll(consumer: Any, wait_ms: int) -> dict[Any, list[Any]]:
    """One poll, of one that joins again where kafka-python 3.0 would not.

    It begins a join for a change of the topic's metadata and takes the metadata for joined as soon as it has led it.
    If the poll ends before the answer comes, the next no longer asks for it: it takes part in a rebalance for ever.
    """
    member = consumer._coordinator
    if member.rebalance_in_progress() and not member.need_rejoin():
        member.request_rejoin()
    return consumer.poll(timeout_ms=wait_ms)  # type: ignore[no-any-return]
