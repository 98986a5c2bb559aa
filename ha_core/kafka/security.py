"""How this side logs in to clusters: profiles by name, kept outside the shared state.

A YAML file `{name: {mechanism: PLAIN, username: …, password_file: …}}`, named by `SWITCHYARD_SECURITY_FILE`, or the
same mapping as `security_profiles` in the extra of an Airflow connection (there with `password` in place).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ha_core.kafka.errors import SecurityProfileError
from ha_core.wire.sasl import SecurityProfile

SECURITY_FILE_VARIABLE = "SWITCHYARD_SECURITY_FILE"
_MAX_FILE_BYTES = 1024 * 1024
_KEYS = {"mechanism", "username", "password", "password_file"}


NO_SECURITY = SecurityProfile()


def load_profiles(path: Path | None = None, environment: Mapping[str, str] | None = None) -> dict[str, SecurityProfile]:
    """The profiles of `path`, else of the file that `SWITCHYARD_SECURITY_FILE` names, else none; always with `none`.

    :raises SecurityProfileError: names file, profile, key and remedy.
    """
    if path is None:
        named = (os.environ if environment is None else environment).get(SECURITY_FILE_VARIABLE)
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


def profiles(found: Mapping[Any, Any], source: str, folder: Path | None = None) -> dict[str, SecurityProfile]:
    """Profiles from a mapping as described above; `folder` is where relative password files are looked for.

    :raises SecurityProfileError: names source, profile, key and remedy.
    """
    return {"none": NO_SECURITY} | {
        str(name): _profile(fields or {}, f"{source}: profile {name}", folder or Path())
        for name, fields in found.items()
    }


def _profile(fields: Any, where: str, folder: Path) -> SecurityProfile:
    if not isinstance(fields, Mapping):
        raise SecurityProfileError(f"{where}: holds {type(fields).__name__}. Write `mechanism`, `username` and so on.")
    strangers = sorted(str(key) for key in fields if key not in _KEYS)
    if strangers:
        raise SecurityProfileError(f"{where}: {strangers[0]}: no such key. Known: {', '.join(sorted(_KEYS))}.")
    mechanism = fields.get("mechanism")
    if mechanism is None:
        if fields:
            raise SecurityProfileError(f"{where}: {sorted(fields)[0]} needs a mechanism. Add `mechanism: PLAIN`.")
        return NO_SECURITY
    if mechanism != "PLAIN":
        raise SecurityProfileError(f"{where}: mechanism {mechanism!r} is not known. Use PLAIN.")
    username, password = fields.get("username"), fields.get("password")
    if not isinstance(username, str) or not username or "\0" in username:
        raise SecurityProfileError(f"{where}: username {username!r} is not a name. Write it as quoted text.")
    if (password is None) == (fields.get("password_file") is None):
        raise SecurityProfileError(f"{where}: give either password_file or password.")
    if password is None:
        file = folder / str(fields["password_file"])
        password = _text(file, f"{where}: password_file {file}").rstrip("\r\n")
    if not isinstance(password, str) or not password or "\0" in password:
        raise SecurityProfileError(f"{where}: the password is empty or not text. Write it as quoted text.")
    return SecurityProfile("PLAIN", username, password)


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
