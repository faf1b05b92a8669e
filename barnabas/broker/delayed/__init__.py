"""What waits: the timing wheel, the delayed operation, and the purgatory that parks operations by key.

Nothing here knows of requests, logs or Kafka's protocol. Time is an argument everywhere (monotonic whole ms).
"""

from barnabas.broker.delayed.operation import DESCRIBED_MAX, DelayedOperation
from barnabas.broker.delayed.purgatory import MANY_KEYS, Purgatory
from barnabas.broker.delayed.timer import CallbackTask, Timer, TimerTask

__all__ = ["DESCRIBED_MAX", "MANY_KEYS", "CallbackTask", "DelayedOperation", "Purgatory", "Timer", "TimerTask"]
