"""What talks to brokers: connections, requests in flight, metadata. No I/O but in `host`.

It stands below client and broker, which may not import each other: a follower and a controller need it too.

For whoever builds on the network layer (all on one event loop):

    config = ClientConfig.of({"bootstrap.servers": "localhost:9092"}, client_id="mine")   # config.py
    client = Client(config)                       # host/connection.py
    await client.start()                          # first metadata; ClientTimeout if nobody answers
    client.cluster                                # topology.py: Cluster, immutable, replaced by each answer
    client.cluster.leader(TopicPartition(...))    # Node | None; .partition .partitions_for .topic_id .topic_names
    await client.refresh_metadata(["topic"])      # newer than now, topics added to the interest; returns the Cluster
    await client.send(node_id, request)           # -> response; Disconnected (retriable), FeatureMissing, ClientClosed
    (await client.any_node()).id                  # the least loaded node
    client.metadata.request_update()              # something was stale; refreshed in the background, with back-off
    client.metadata.update_leader(tp, leader, epoch, node)   # a hint from an answer (KIP-951)
    await client.close()

A core part that decides by itself (the sender, the fetcher) is a driver: `client.drivers.append(f)`, `f(now_ms) ->
deadline_ms` runs after every event and asks `client.network.ready(node_id, now_ms)` before
`client.network.send(node_id, request, now_ms, on_done)`; `on_done(response, error, now_ms)` is called exactly once.
`client.pump()` runs a step by hand after state changed outside of an event. New settings: subclass `ClientConfig`.
"""
