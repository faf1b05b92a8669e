"""`python -m tests.durability.planted NAME -- OPTIONS`: `barnabas broker` with an old defect."""

from __future__ import annotations

import sys

from barnabas.broker.__main__ import main
from tests.durability.plants.known import PLANTS

if __name__ == "__main__":
    where = sys.argv.index("--")
    for name in sys.argv[1:where]:
        PLANTS[name].make()
    sys.exit(main(sys.argv[where + 1 :]))
