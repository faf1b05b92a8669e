"""The secret that the brokers of a cluster share, from its file, which nobody but their user may read."""

from __future__ import annotations

import os
import stat
import sys
from typing import Final

from barnabas.broker.introduction import SECRET_BYTES_MIN
from barnabas.protocol.errors import ConfigError

SECRET_BYTES_MAX: Final = 4096
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO


def read_secret(path: str) -> bytes:
    """The secret in the file of `barnabas.cluster.secret.file`, without blanks and line ends around it.

    Raises:
        ConfigError: it cannot be read, others can read it, or it is too short or too long.
    """
    told = f"barnabas.cluster.secret.file={path}"
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ConfigError(f"{told}: it is no file; name one that holds the secret")
        with open(path, "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{told}: it cannot be read: {error.strerror or error}") from error
    if mode & _OTHERS and sys.platform != "win32":
        raise ConfigError(f"{told}: others may use it (mode {stat.S_IMODE(mode):04o}); make it yours alone: chmod 600")
    secret = data.strip()
    if len(data) > SECRET_BYTES_MAX or len(secret) < SECRET_BYTES_MIN:
        size = f"more than {SECRET_BYTES_MAX}" if len(data) > SECRET_BYTES_MAX else str(len(secret))
        raise ConfigError(
            f"{told}: the secret has {size} bytes; write {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} that nobody can "
            "guess, such as `openssl rand -hex 32` prints"
        )
    return secret
