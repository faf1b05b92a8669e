"""Settings: one table of definitions, and the sources they are read from.

config, warnings = load(overrides={"log.dirs": "/data"}, environment=environ, properties=text)
topic = topic_config(config, {"retention.ms": "1000"})
"""

from __future__ import annotations

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.keys import ConfigError, Key, Kind, Update, keys_of
from barnabas.broker.config.topic_config import TopicConfig, topic_config

__all__ = ["BrokerConfig", "ConfigError", "Key", "Kind", "TopicConfig", "Update", "keys_of", "topic_config"]
