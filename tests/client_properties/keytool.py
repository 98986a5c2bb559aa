"""Java's own stores: runs `keytool`."""

import subprocess
from pathlib import Path

from stack.java import find_java

PASSWORD = "chang3it"


def keytool(*arguments: str) -> None:
    command = [str(find_java().home / "bin" / "keytool"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def trust_store(file: Path, authority: Path, kind: str = "PKCS12") -> Path:
    """A store of the authority's certificate."""
    keytool(
        *("-importcert", "-noprompt", "-alias", "authority", "-file", str(authority)),
        *("-keystore", str(file), "-storetype", kind, "-storepass", PASSWORD),
    )
    return file


def converted(file: Path, source: Path, kind: str) -> Path:
    """A copy of a PKCS12 store in another form."""
    keytool(
        *("-importkeystore", "-noprompt", "-srckeystore", str(source), "-srcstoretype", "PKCS12"),
        *("-srcstorepass", PASSWORD, "-destkeystore", str(file), "-deststoretype", kind, "-deststorepass", PASSWORD),
    )
    return file
