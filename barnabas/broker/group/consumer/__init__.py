"""Groups of the consumer protocol (KIP-848): the coordinator assigns, and each member is led to it by its heartbeats.

Source: `GroupMetadataManager.consumerGroupHeartbeat` and the package `group.modern` of Apache Kafka 4.3.

    group epoch     rises when a member comes, goes or wants other topics, and when topics it wants have changed
    target epoch    the group epoch that the target was computed for: who is to have which partitions
    member epoch    the target epoch that the member has reached: it has given up whatever is no longer its own

A member that is to give up partitions keeps its epoch until a heartbeat says that it owns them no more. One that is to
have partitions which others still hold has the new epoch at once, and those partitions when they are free. So no
partition is ever with two members, and nobody waits for the slowest.

From the ground up:

    values | topics                     what the others are made of; what is asked of the metadata
    records | hashing                   what lies in the log
    group                               one group: members, targets, owners; changed by replaying records alone
    replaying                           a record, and what hangs on it: alarms, memory
    reconciling | targets               pure: a member's next assignment; what the group is to be assigned
    patterns                            regular expressions and the topics that they match
    members -> heartbeats               sessions, fencing, leaving; the heartbeat itself
    describing                          as it is told
"""
