"""sarama: its producers, consumers, consumer groups and cluster admin.

It asks as a client of Kafka 2.8 unless its `Version` says otherwise, and programs have either.
"""

from tests.wire.matrix import Matrix
from tests.wire.tried import SARAMA, SARAMA_NEWEST


class TestSarama(Matrix):
    tried = SARAMA


class TestSaramaNewest(Matrix):
    tried = SARAMA_NEWEST
