"""kafkajs: gzip is its own, the other codecs are those that its users add (`clients/kafkajs/codecs.js`)."""

from tests.wire.matrix import Matrix
from tests.wire.tried import KAFKAJS


class TestKafkajs(Matrix):
    tried = KAFKAJS
