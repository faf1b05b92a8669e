"""Where a run of the demo keeps its things: what stays for people, and what goes with the run."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import warnings
from pathlib import Path


class Place:
    """Picture and log stay in `directory`; broker data and checkpoint lie in a directory of this run and go with it.

    What the process makes until `close`, and what it starts, is its owner's alone (0700, 0600).

    Args:
        directory: made if need be; a new temporary one unless given, which goes as well if nothing is left in it that
            somebody might want to see.

    Raises:
        OSError: it cannot be made or written.
    """

    def __init__(self, directory: Path | None) -> None:
        self._own = directory is None
        self._umask = os.umask(0o077)
        try:
            self._settle(directory)
        except OSError:
            os.umask(self._umask)
            raise

    def _settle(self, directory: Path | None) -> None:
        if directory is None:
            directory = Path(tempfile.mkdtemp(prefix="barnabas-demo-"))
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory.resolve()
        self._work = Path(tempfile.mkdtemp(prefix="run-", dir=self.directory))
        self.broker_dir = self._work / "broker"
        self.checkpoint = self._work / "checkpoint"
        self.warehouse = self._work / "warehouse"
        self.picture = self.directory / "delays.png"
        self.log_file = self.directory / "spark.log"
        self._keep = False
        self.keep_picture = False
        self._listen()

    def _listen(self) -> None:
        """What libraries have to say, in Python too, goes where Spark's own words go."""
        logging.basicConfig(filename=self.log_file, level=logging.WARNING, force=True)
        # PySpark looks at pandas, which neither it nor the demo needs, and complains of versions newer than itself.
        warnings.filterwarnings("ignore", message="PySpark does not yet fully support pandas", category=FutureWarning)

    def keep_log(self) -> None:
        """The log has something to say: it stays, without a picture too."""
        self._keep = True

    def close(self) -> None:
        """Removes what goes with the run; a log without a picture stays only if somebody asked for it."""
        logging.shutdown()
        shutil.rmtree(self._work, ignore_errors=True)
        if self._own and not (self.picture.exists() or self.keep_picture or self._keep):
            shutil.rmtree(self.directory, ignore_errors=True)
        os.umask(self._umask)
