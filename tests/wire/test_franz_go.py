"""franz-go, through its client and its admin package kadm."""

from tests.wire.matrix import Matrix
from tests.wire.tried import FRANZ_GO


class TestFranzGo(Matrix):
    tried = FRANZ_GO
