"""The two kinds of groups: both have a name, offsets, an address they count for, members, a state.

They share no more than that. A group of one kind becomes one of the other by records, as another object.
"""

from __future__ import annotations

from typing import TypeAlias

from barnabas.broker.group.consumer.group import ConsumerGroup
from barnabas.broker.group.group import Group

AnyGroup: TypeAlias = Group | ConsumerGroup
