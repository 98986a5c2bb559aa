"""TLS files in configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from ha_core.tls.contexts import TlsFilesError
from ha_core.wire.tls_files import TlsFiles

KEYS = tuple(field.name for field in fields(TlsFiles))


def named_files(document: Any, where: str, folder: Path) -> TlsFiles:
    """From `{ca_file: …, certificate_file: …, key_file: …, key_password_file: …}`, all of which may be missing.

    :param folder: of files with relative names.
    :raises TlsFilesError: names key and remedy. The files themselves are not read.
    """
    if not isinstance(document, Mapping):
        raise TlsFilesError(f"{where}: holds {type(document).__name__}. Write `ca_file: …`, or {{}} for the system's.")
    if unknown := sorted(str(key) for key in document if key not in KEYS):
        raise TlsFilesError(f"{where}: {unknown[0]}: no such key. Known: {', '.join(KEYS)}.")
    for key, value in document.items():
        if not isinstance(value, str) or not value or "\0" in value:
            raise TlsFilesError(f"{where}: {key}: {value!r} is not the name of a file.")
    if "certificate_file" not in document and (orphan := sorted(set(document) - {"ca_file"})):
        raise TlsFilesError(f"{where}: {orphan[0]} needs a certificate_file.")
    return TlsFiles(**{key: str(folder / value) for key, value in document.items()})


def file_names(files: TlsFiles) -> dict[str, str]:
    """The reverse of `named_files`."""
    return {key: value for key in KEYS if (value := getattr(files, key)) is not None}
