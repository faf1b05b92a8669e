"""Settings: tables of definitions, and the sources they are read from.

config, warnings = load(overrides={"log.dirs": "/data"}, environment=environ, properties=text)
topic = topic_config(config, {"retention.ms": "1000"})
"""

from __future__ import annotations

from barnabas.broker.config.broker_config import BrokerConfig
from barnabas.broker.config.keys import Key, Kind, Update, keys_of
from barnabas.broker.config.listeners import Endpoint, advertised_endpoints, listening_endpoints
from barnabas.broker.config.sources import Loaded, load
from barnabas.broker.config.topic_config import TopicConfig, topic_config
from barnabas.broker.config.topics import StartTopic, parse_topics
from barnabas.protocol.errors import ConfigError

__all__ = [
    "BrokerConfig",
    "ConfigError",
    "Endpoint",
    "Key",
    "Kind",
    "Loaded",
    "StartTopic",
    "TopicConfig",
    "Update",
    "advertised_endpoints",
    "keys_of",
    "listening_endpoints",
    "load",
    "parse_topics",
    "topic_config",
]
