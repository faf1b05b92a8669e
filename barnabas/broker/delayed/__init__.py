"""What waits: the timing wheel, the delayed operation, and the purgatory that parks operations by key.

Nothing here knows of requests, logs or Kafka's protocol. Time is an argument everywhere (monotonic whole ms).
"""

from barnabas.broker.delayed.operation import DelayedOperation
from barnabas.broker.delayed.purgatory import Purgatory
from barnabas.broker.delayed.timer import CallbackTask, Timer, TimerTask

__all__ = ["CallbackTask", "DelayedOperation", "Purgatory", "Timer", "TimerTask"]
