"""What the tests of models share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ca")
    key, cert, both = (folder / name for name in ("key.pem", "cert.pem", "both.pem"))
    words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    words += ["-nodes", "-days", "2", "-subj", "/CN=models.test", "-keyout", str(key)]
    words += ["-addext", "subjectAltName=DNS:models.test,DNS:localhost", "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True, timeout=30)
    both.write_bytes(key.read_bytes() + cert.read_bytes())
    return cert
