"""TLS for servers of the tests."""

from __future__ import annotations

import ssl
from pathlib import Path


def tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.with_name("both.pem"))
    return context
