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
    group                               one group: members, targets, owners; changed by replaying records alone
    records | hashing | replaying       what lies in the log; a record is replayed, and what hangs on it seen to
    reconciling | assignors | targets   pure: a member's next step; who shares what; what the group is to have
    patterns | embedded                 regular expressions; what classic members say of topics
    downgrading -> members              back to a classic group; sessions, fencing
    identifying -> advancing            who a heartbeat is from; one member's step, written
    resolving | preparing -> upgrading  what patterns match, found anew; a classic group with its members taken in
    beginning -> gathering              those who come to an empty group at the same time
    heartbeats | classic_members        the requests of members of either protocol
    committing | describing             whose commit counts; groups as they are told
"""
