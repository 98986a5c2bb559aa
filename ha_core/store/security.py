"""How this process reaches ZooKeeper: with TLS, with credentials, with both or with neither.

`{tls: {ca_file: …, certificate_file: …, key_file: …}, username: …, password_file: …}`: a file, which
`SWITCHYARD_ZOOKEEPER_SECURITY_FILE` names for commands, tasks and jobs, or a part of a gateway's configuration.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ha_core.store.errors import StoreSecurityError
from ha_core.tls.contexts import TlsFilesError, named_files
from ha_core.wire.tls_files import TlsFiles

FILE_VARIABLE = "SWITCHYARD_ZOOKEEPER_SECURITY_FILE"
_KEYS = ("tls", "username", "password_file")
_MAX_FILE_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class StoreSecurity:
    """
    :ivar username: the account (digest) that owns created nodes; "": every client may change them.
    """

    tls: TlsFiles | None = None
    username: str = ""
    password: str = field(default="", repr=False)

    @property
    def open(self) -> bool:
        """Whether every client that reaches ZooKeeper's port has this process's rights."""
        return self.tls is None and not self.username


OPEN = StoreSecurity()
OPEN_WARNING = (
    "ZooKeeper is reached without TLS and without credentials: anyone who reaches its port can move every client. Give "
    f"tls, or username and password_file (gateways: `zookeeper:`; else the file that {FILE_VARIABLE} names)"
)


def from_environment() -> StoreSecurity:
    """The content of the file that the variable names; without it, neither TLS nor credentials.

    :raises StoreSecurityError: names file, key and remedy.
    """
    named = os.environ.get(FILE_VARIABLE)
    return load(Path(named)) if named else OPEN


def load(path: Path) -> StoreSecurity:
    """:raises StoreSecurityError: names file, key and remedy."""
    try:
        document = yaml.safe_load(_text(path, str(path)))
    except yaml.YAMLError as error:
        raise StoreSecurityError(f"{path}: {error}. Correct the YAML.") from None
    return parse(document, str(path), path.parent)


def parse(document: Any, where: str, folder: Path) -> StoreSecurity:
    """:param folder: of files with relative names.
    :raises StoreSecurityError: names key and remedy.
    """
    if not isinstance(document, Mapping):
        raise StoreSecurityError(f"{where}: holds {type(document).__name__}. Write `tls: …` and `username: …`.")
    if unknown := sorted(str(key) for key in document if key not in _KEYS):
        raise StoreSecurityError(f"{where}: {unknown[0]}: no such key. Known: {', '.join(_KEYS)}.")
    try:
        tls = named_files(document["tls"], f"{where}: tls", folder) if "tls" in document else None
    except TlsFilesError as error:
        raise StoreSecurityError(str(error)) from None
    username, file = document.get("username", ""), document.get("password_file")
    if not isinstance(username, str) or ":" in username:
        raise StoreSecurityError(f"{where}: username {username!r} is not a name; it may hold no colon.")
    if bool(username) != (file is not None):
        raise StoreSecurityError(f"{where}: username and password_file belong together; give both, or neither.")
    if file is None:
        return StoreSecurity(tls)
    password = _text(folder / str(file), f"{where}: password_file {folder / str(file)}").rstrip("\r\n")
    if not password:
        raise StoreSecurityError(f"{where}: password_file {folder / str(file)}: is empty; write the password into it.")
    return StoreSecurity(tls, username, password)


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
    except OSError as error:
        raise StoreSecurityError(f"{what}: {error.strerror}. Give the path of a readable file.") from None
    if len(data) > _MAX_FILE_BYTES:
        raise StoreSecurityError(f"{what}: longer than {_MAX_FILE_BYTES} bytes. This is not the right file.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise StoreSecurityError(f"{what}: not UTF-8 at byte {error.start}. Save it as UTF-8.") from None
