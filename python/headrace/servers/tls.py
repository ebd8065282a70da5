"""Certificates for TCP: an authority of the server's own, made once, whose key is thrown away when it has signed."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from headrace.errors import CouldNotRun
from headrace.servers.filesystem import tool
from headrace.servers.places import Places
from headrace.servers.process import User

# Longer than a lab lives; RFC 5280 sets no limit.
DAYS = "3650"
CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
NAMES = "subjectAltName=IP:127.0.0.1,DNS:localhost"
FILES = ("ca.pem", "server-cert.pem", "server-key.pem")


def create(where: Places, name: str) -> None:
    """CA, certificate and key in the server's private folder. Raises CouldNotRun."""
    openssl = tool("openssl", "openssl")
    where.tls.mkdir(mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=where.state) as folder:
        at = Path(folder)
        _run([openssl, "req", "-x509", *CURVE, "-keyout", f"{at}/ca-key.pem", "-out", f"{at}/ca.pem", "-days", DAYS,
              "-subj", f"/CN=Headrace CA of {name}", "-addext", "keyUsage=critical,keyCertSign,cRLSign"])  # fmt: skip
        _run(
            [openssl, "req", *CURVE, "-keyout", f"{at}/server-key.pem", "-out", f"{at}/request.pem", "-subj", f"/CN=Headrace server {name}"]
        )
        (at / "extensions").write_text(f"{NAMES}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n")
        _run([openssl, "x509", "-req", "-in", f"{at}/request.pem", "-CA", f"{at}/ca.pem", "-CAkey", f"{at}/ca-key.pem", "-CAcreateserial",
              "-days", DAYS, "-extfile", f"{at}/extensions", "-out", f"{at}/server-cert.pem"])  # fmt: skip
        for name_ in FILES:
            os.replace(at / name_, where.tls / name_)


def place(where: Places, user: User) -> None:
    """Copies for the server to read, at every start: /run forgets. Raises CouldNotRun."""
    try:
        where.keys.mkdir(mode=0o750, exist_ok=True)
        os.chown(where.keys, 0, user.gid)
        for name in FILES:
            shutil.copyfile(where.tls / name, where.keys / name)
            os.chown(where.keys / name, 0, user.gid)
            os.chmod(where.keys / name, 0o640)
    except OSError as error:
        raise CouldNotRun(str(where.keys), f"cannot be written: {error.strerror}", "", "Make the server anew.") from None


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CouldNotRun("openssl", f"could not be run: {error}", "openssl(1)", "") from None
    if done.returncode != 0:
        raise CouldNotRun("openssl", " ".join(done.stderr.split())[-300:], "openssl(1)", "TLS needs OpenSSL 1.1.1 or newer.")
