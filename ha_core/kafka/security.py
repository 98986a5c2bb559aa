"""Credentials for clusters: security profiles by name, kept outside the shared state.

`{name: {mechanism: …, username: …, password_file: …, tls: {ca_file: …}}}`, or `{mechanism: OAUTHBEARER, token_file: …,
tls: …}`; each may have `principal: User:NAME`, the account's name at brokers. They come from a security file, named by
`SWITCHYARD_SECURITY_FILE` (it may also have `password`), from the `security_profiles` of a gateway's configuration
(files only), or as one profile from an Airflow connection (`password` or `token_file` only).
"""

import os
import secrets as random_secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from ha_core.kafka.errors import SecurityProfileError
from ha_core.model.access import ANYBODY
from ha_core.tls.contexts import TlsFilesError, file_names, named_files
from ha_core.wire.client import Client, Conversation, LoginRefusedError, log_in
from ha_core.wire.sasl import MECHANISMS, SecurityProfile
from ha_core.wire.sasl_oauth import OAUTHBEARER
from ha_core.wire.tls_files import TlsFiles, TlsPem

SECURITY_FILE_VARIABLE = "SWITCHYARD_SECURITY_FILE"
_MAX_FILE_BYTES = 1024 * 1024
_SECRETS = ("password_file", "password")
_BESIDE_LOGIN = ("tls", "principal")
"""Keys that need no mechanism."""

NO_SECURITY = SecurityProfile()


def load_profiles(path: Path | None = None) -> dict[str, SecurityProfile]:
    """The profiles of `path`, else of the file named by `SWITCHYARD_SECURITY_FILE`; always includes `none`.

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
    """Profiles from a mapping as described above; relative paths of files are resolved in `folder`.

    :param secrets: the allowed keys for a password.
    :raises SecurityProfileError: names source, profile, key and remedy.
    """
    return {"none": NO_SECURITY} | {
        str(name): _profile(fields or {}, f"{source}: profile {name}", folder, secrets)
        for name, fields in found.items()
    }


def begin_login(client: Client, profile: SecurityProfile) -> Conversation[float | None]:
    """`log_in` with values that each login needs anew: the current token from its file, and a nonce.

    :raises LoginRefusedError: the file cannot be used.
    """
    if profile.token_file:
        try:
            profile = replace(profile, password=token_of(profile))
        except SecurityProfileError as error:
            raise LoginRefusedError(f"is not logged in to: {error}") from None
    return (yield from log_in(client, profile, random_secrets.token_urlsafe(24)))


def token_of(profile: SecurityProfile) -> str:
    """The current token of the profile's file.

    :raises SecurityProfileError: the file cannot be used.
    """
    return _token(Path(profile.token_file), f"token_file {profile.token_file}")


def fields_of(profile: SecurityProfile) -> dict[str, Any]:
    """A profile in the form that `profiles` reads, with its password: the caller must protect the file.

    :raises SecurityProfileError: its certificates are in memory, not in files.
    """
    if isinstance(profile.tls, TlsPem):
        raise SecurityProfileError(f"{profile.declared_in}: its certificates are in no PEM files. Name such files.")
    rest: dict[str, Any] = {} if profile.tls is None else {"tls": file_names(profile.tls)}
    if profile.principal:
        rest["principal"] = profile.principal
    if profile.mechanism is None:
        return rest
    if profile.token_file:
        return {"mechanism": profile.mechanism, "token_file": profile.token_file, **rest}
    return {"mechanism": profile.mechanism, "username": profile.username, "password": profile.password, **rest}


def _profile(fields: Any, where: str, folder: Path, secrets: Sequence[str]) -> SecurityProfile:
    if not isinstance(fields, Mapping):
        raise SecurityProfileError(f"{where}: holds {type(fields).__name__}. Write `mechanism`, `username` and so on.")
    mechanism = fields.get("mechanism")
    by_token = mechanism == OAUTHBEARER
    known = sorted(("mechanism", *_BESIDE_LOGIN, *(("token_file",) if by_token else ("username", *secrets))))
    if unknown := sorted(str(key) for key in fields if key not in known):
        raise SecurityProfileError(f"{where}: {unknown[0]}: no such key. Known: {', '.join(known)}.")
    tls = _tls(fields["tls"], f"{where}: tls", folder) if "tls" in fields else None
    principal = _principal(fields["principal"], where) if "principal" in fields else ""
    if mechanism is None:
        if others := sorted(set(fields) - set(_BESIDE_LOGIN)):
            raise SecurityProfileError(f"{where}: {others[0]} needs a mechanism. Add `mechanism: PLAIN`.")
        return SecurityProfile(tls=tls, principal=principal)
    if not isinstance(mechanism, str) or mechanism not in MECHANISMS:
        raise SecurityProfileError(f"{where}: mechanism {mechanism!r} is not known. Use {', '.join(MECHANISMS)}.")
    if by_token:
        return _by_token(fields.get("token_file"), where, folder, tls, principal)
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
    return SecurityProfile(mechanism, username, password, tls, principal=principal)


def _principal(named: Any, where: str) -> str:
    if not isinstance(named, str) or not named.startswith("User:") or named in {"User:", ANYBODY}:
        raise SecurityProfileError(
            f"{where}: principal {named!r} is no user's. Write it as brokers name the account: `principal: User:NAME`."
        )
    return named


def _by_token(named: Any, where: str, folder: Path, tls: TlsFiles | None, principal: str) -> SecurityProfile:
    if not isinstance(named, str) or not named:
        raise SecurityProfileError(f"{where}: token_file {named!r} is not a path. Name the file that holds the token.")
    file = folder / named
    _token(file, f"{where}: token_file {file}")
    return SecurityProfile(OAUTHBEARER, tls=tls, token_file=str(file.absolute()), principal=principal)


def _token(file: Path, what: str) -> str:
    token = _text(file, what).strip()
    if not token.isascii() or not token.isprintable() or not token or " " in token:
        raise SecurityProfileError(f"{what}: holds no token. Write the token into it, and nothing else.")
    return token


def _tls(found: Any, where: str, folder: Path) -> TlsFiles:
    try:
        return named_files(found, where, folder)
    except TlsFilesError as error:
        raise SecurityProfileError(str(error)) from None


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
