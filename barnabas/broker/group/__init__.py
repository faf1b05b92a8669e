"""The group coordinator: who consumes together, who has which partitions, and how far a group has read.

Source: `GroupMetadataManager`, `OffsetMetadataManager` and `CoordinatorRuntime` of Apache Kafka.

A group belongs to one partition of `__consumer_offsets` (`placement`), and to whichever broker leads that: each such
partition is a `Shard`. What survives a change of leader is in its log, as Kafka writes it, and is changed by replaying
records alone, those just appended like those that a new leader finds. What does not (a rebalance under way: who has
joined it, who waits for its end) is in memory alone; whoever took part begins anew with the next leader, as in Kafka.

    request -> look at the state -> records -> append -> replay -> answer, once the records are below the high watermark

Nothing is changed before its records are appended, so that an append which fails leaves everything as it was.

From the ground up:

    alarms | reply | placement | state | holdings | values    what the others are made of
    group                                                     one classic group: its members, votes, leader
    consumer                                                  groups of the consumer protocol (KIP-848)
    kinds | tombstones                                        what both kinds have in common; how they end
    records | subscriptions | counts                          what is in the log; what is consumed; what is counted
    shard -> answering                                        one partition: groups, offsets, the log, answers held back
    rebalance -> membership -> joining | syncing              the classic protocol
    offsets | looking | deleting                              committed offsets; describing, listing, deleting groups
    expiry | loading                                          what goes when its time is over; what leadership brings
    coordinator                                               all shards of a broker, and what is told of them
"""
