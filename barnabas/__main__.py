"""`python -m barnabas` is the command line, also where its script is not on the path."""

import sys

from barnabas.cli import main

sys.exit(main())
