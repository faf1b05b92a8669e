"""`barnabas cluster elect`: who is to lead does, or whoever is there: the two kinds of kafka-leader-election.sh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.cli.codes import REFUSED, told
from barnabas.cli.group_reset import Chosen, select
from barnabas.cli.speak import fail, say, say_json, some
from barnabas.protocol.errors import ErrorCode
from barnabas.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin import Admin


def elect(admin: Admin, topics: Sequence[Chosen], *, unclean: bool, as_json: bool) -> int:
    """Hold elections of these partitions, of all if none is named, and say what came of each; 1 if one was refused.

    A partition that needs none is no failure: it is as it was to be.
    """
    if topics:
        known = admin.describe_all_topics(internal=True).values()
        there = {TopicPartition(part.topic, part.partition) for topic in known for part in topic.partitions}
        answers = admin.elect_leaders(*select(admin, topics, there), unclean=unclean)
    else:
        answers = admin.elect_leaders(unclean=unclean)
    needless = "it has a leader, nothing is changed" if unclean else "its preferred replica leads already"
    done = "who leads it now may lack what was acknowledged" if unclean else "its preferred replica leads now"
    refused = []
    for where, error in sorted(answers.items()):
        idle = error is not None and error.code == ErrorCode.ELECTION_NOT_NEEDED
        if error is not None and not idle:
            refused.append(told(error))
        if as_json:
            why = None if error is None or idle else told(error)
            say_json(topic=where.topic, partition=where.partition, elected=error is None, error=why)
        elif error is None or idle:
            say(f"{where}: {needless if idle else done}")
    if not as_json and not answers:
        say("nothing to elect: each preferred replica leads already")
    if refused:
        return fail(f"{some(len(refused), 'partition')} as before: {'; '.join(refused)}", REFUSED)
    return 0
