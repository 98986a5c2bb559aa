"""How this side logs in to clusters: security profiles by name, kept outside the shared state.

`{name: {mechanism: PLAIN, username: …, password_file: …, tls: {ca_file: …}}}`: a security file, which
`SWITCHYARD_SECURITY_FILE` names (it may have `password` in place), the `security_profiles` of a gateway's configuration
(files only), or one profile that an Airflow connection describes (`password` only).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from ha_core.kafka.errors import SecurityProfileError
from ha_core.tls.contexts import TlsFilesError
from ha_core.tls.naming import named_files, told
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles

SECURITY_FILE_VARIABLE = "SWITCHYARD_SECURITY_FILE"
_MAX_FILE_BYTES = 1024 * 1024
_SECRETS = ("password_file", "password")


NO_SECURITY = SecurityProfile()


def load_profiles(path: Path | None = None) -> dict[str, SecurityProfile]:
    """The profiles of `path`, else of the file that `SWITCHYARD_SECURITY_FILE` names, else none; always with `none`.

    :raises SecurityProfileError: names file, profile, key and remedy.
    """
    if path is None:
        named = os.environ.get(SECURITY_FILE_VARIABLE)
        if not named:
            return {"none": NO_SECURITY}
        path = Path(named)
    try:
        found = yaml.safe_load(_text(path, f"security file {path}"))
    except yaml.YAMLError as error:
        raise SecurityProfileError(f"{path}: {error}. Correct the YAML.") from None
    if not isinstance(found, Mapping):
        raise SecurityProfileError(f"{path}: holds {type(found).__name__}. Write `name: {{mechanism: …}}` lines.")
    return profiles(found, str(path), path.parent)


def profiles(
    found: Mapping[Any, Any], source: str, folder: Path = Path(), secrets: Sequence[str] = _SECRETS
) -> dict[str, SecurityProfile]:
    """Profiles from a mapping as described above; `folder` is where relative password files are looked for.

    :param secrets: the keys for a password that are allowed there.
    :raises SecurityProfileError: names source, profile, key and remedy.
    """
    return {"none": NO_SECURITY} | {
        str(name): _profile(fields or {}, f"{source}: profile {name}", folder, secrets)
        for name, fields in found.items()
    }


def _profile(fields: Any, where: str, folder: Path, secrets: Sequence[str]) -> SecurityProfile:
    if not isinstance(fields, Mapping):
        raise SecurityProfileError(f"{where}: holds {type(fields).__name__}. Write `mechanism`, `username` and so on.")
    known = sorted(("mechanism", "username", "tls", *secrets))
    if unknown := sorted(str(key) for key in fields if key not in known):
        raise SecurityProfileError(f"{where}: {unknown[0]}: no such key. Known: {', '.join(known)}.")
    tls = _tls(fields["tls"], f"{where}: tls", folder) if "tls" in fields else None
    mechanism = fields.get("mechanism")
    if mechanism is None:
        if others := sorted(set(fields) - {"tls"}):
            raise SecurityProfileError(f"{where}: {others[0]} needs a mechanism. Add `mechanism: PLAIN`.")
        return SecurityProfile(tls=tls)
    if mechanism != "PLAIN":
        raise SecurityProfileError(f"{where}: mechanism {mechanism!r} is not known. Use PLAIN.")
    username, password = fields.get("username"), fields.get("password")
    if not isinstance(username, str) or not username or "\0" in username:
        raise SecurityProfileError(f"{where}: username {username!r} is not a name. Write it as quoted text.")
    if (password is None) == (fields.get("password_file") is None):
        either = "either " if len(secrets) > 1 else ""
        raise SecurityProfileError(f"{where}: give {either}{' or '.join(secrets)}.")
    if password is None:
        file = folder / str(fields["password_file"])
        password = _text(file, f"{where}: password_file {file}").rstrip("\r\n")
    if not isinstance(password, str) or not password or "\0" in password:
        raise SecurityProfileError(f"{where}: the password is empty or not text. Write it as quoted text.")
    return SecurityProfile("PLAIN", username, password, tls)


def _tls(found: Any, where: str, folder: Path) -> TlsFiles:
    try:
        return named_files(found, where, folder)
    except TlsFilesError as error:
        raise SecurityProfileError(str(error)) from None


def told_profile(profile: SecurityProfile) -> dict[str, Any]:
    """What `profiles` reads back, with the password in it: for a process that works on this one's behalf."""
    account = {"username": profile.username, "password": profile.password, "mechanism": profile.mechanism}
    return (account if profile.mechanism else {}) | ({"tls": told(profile.tls)} if profile.tls is not None else {})


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_FILE_BYTES + 1)
        if len(data) > _MAX_FILE_BYTES:
            raise SecurityProfileError(f"{what}: longer than {_MAX_FILE_BYTES} bytes. This is not the right file.")
        return data.decode()
    except OSError as error:
        raise SecurityProfileError(f"{what}: {error.strerror}. Give the path of a readable file.") from None
    except UnicodeDecodeError as error:
        raise SecurityProfileError(f"{what}: not UTF-8 at byte {error.start}. Save it as UTF-8.") from None
