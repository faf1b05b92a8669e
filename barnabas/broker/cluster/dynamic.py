"""Settings that change while the broker runs (KIP-226): static ones, overlaid with those in the metadata."""

from __future__ import annotations

import logging
from typing import Any

from barnabas.broker.cluster import lock_out
from barnabas.broker.cluster.image import BROKER_RESOURCE, Image
from barnabas.broker.config import BrokerConfig, ConfigError, Key, Update, keys_of

logger = logging.getLogger(__name__)


def used(key: Key, text: str, image: Image) -> Any:
    """What a stored value stands for.

    Raises:
        ConfigError: it is passed over: this release cannot use it, or it locks everybody out.
    """
    value = key.parse(text)
    lock_out.check(key, value, image)
    return value


def refresh(live: BrokerConfig, static: BrokerConfig, image: Image) -> list[str]:
    """Bring `live` up to date, in place; returns the names of what changed.

    This broker's own dynamic setting wins over the cluster's, which wins over the static one. A stored value that this
    release cannot use, or that locks everybody out (an older one may have taken it), is passed over aloud: the next in
    this order counts. One that says what this broker was started with anyway is never passed over.
    """
    cluster = image.configs.get((BROKER_RESOURCE, ""), {})
    own = image.configs.get((BROKER_RESOURCE, str(static.node_id)), {})
    changed = []
    for name, key in keys_of(BrokerConfig).items():
        if key.update is Update.READ_ONLY:
            continue
        value = getattr(static, key.attribute)
        for level in (own, cluster):
            if name not in level:
                continue
            try:
                if key.parse(level[name]) != value:
                    value = used(key, level[name], image)
                break
            except ConfigError as fault:
                logger.warning("a stored setting is ignored, and should be deleted: %s", fault)
        if value != getattr(live, key.attribute):
            setattr(live, key.attribute, value)
            changed.append(name)
    return changed
