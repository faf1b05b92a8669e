"""sarama: its producers, consumers, consumer groups and cluster admin."""

from tests.wire.matrix import Matrix
from tests.wire.tried import SARAMA


class TestSarama(Matrix):
    tried = SARAMA
