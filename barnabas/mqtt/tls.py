"""TLS to the MQTT broker, of the files that `[mqtt.tls]` names."""

from __future__ import annotations

import ssl

from barnabas.mqtt.settings import Tls
from barnabas.protocol.errors import ConfigError


def context(tls: Tls) -> ssl.SSLContext:
    """What a connection is made with; read anew for each, for certificates are renewed.

    Raises:
        ConfigError: a file is not what it should be; the text begins with its key.
    """
    try:
        made = ssl.create_default_context(cafile=tls.ca_file or None)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"ca_file: {tls.ca_file}: {_why(error)}; it should hold certificates in PEM") from None
    if not tls.verify:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if tls.cert_file:
        try:
            made.load_cert_chain(tls.cert_file, tls.key_file or None, password="")  # and nobody is asked for one
        except (ssl.SSLError, OSError) as error:
            files = f"{tls.cert_file} {tls.key_file}".strip()
            remedy = "they should hold a certificate and its key in PEM, the key without a password"
            raise ConfigError(f"cert_file: {files}: {_why(error)}; {remedy}") from None
    return made


def _why(error: OSError) -> str:
    return getattr(error, "reason", None) or error.strerror or str(error)
