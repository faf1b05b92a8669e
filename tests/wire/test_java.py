"""Apache Kafka's own Java client."""

from tests.wire.matrix import Matrix
from tests.wire.tried import JAVA


class TestJava(Matrix):
    tried = JAVA
