"""Records of `__consumer_offsets`, as Apache Kafka writes and reads them."""
