"""Callers: names and roles by token, one per line, `ROLE NAME TOKEN`.

A `gateway` reads the gateways' paths, password keys included; an `operator` reads and changes the rest.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from ha_core.platform.errors import InvalidError, TokenFileError
from ha_core.platform.words import MAX_NAME, name

MIN_TOKEN = 32
"""Characters: too many to guess."""
MAX_TOKEN = 512
MAX_TOKENS = 1000
VARIABLE = "SWITCHYARD_PLATFORM_TOKENS"
Role = Literal["gateway", "operator"]


@dataclass(frozen=True, slots=True)
class Caller:
    name: str
    role: Role


class CallerTokens:
    """Callers by the hashes of their tokens, so that all comparisons have the same length."""

    def __init__(self, callers: Mapping[bytes, Caller]) -> None:
        self._callers = callers

    def caller(self, token: str) -> Caller | None:
        """None: unknown token. The time reveals nothing about any token: each hash is compared in full."""
        digest = hashlib.sha256(token.encode(errors="surrogatepass")).digest()
        found = None
        for known, caller in self._callers.items():
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def parse(text: str, where: str) -> CallerTokens:
    """:raises TokenFileError: names the line, never a token."""
    callers: dict[bytes, Caller] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not (words := line.split()) or words[0].startswith("#"):
            continue
        at = f"{where}, line {number}"
        if len(words) != 3 or words[0] not in get_args(Role):
            raise TokenFileError(f"{at}: write `gateway NAME TOKEN` or `operator NAME TOKEN`")
        role, who, token = words
        try:
            name(who)
        except ValueError as error:
            raise TokenFileError(f"{at}: name {error}") from None
        if len(who) > MAX_NAME or not MIN_TOKEN <= len(token) <= MAX_TOKEN:
            raise TokenFileError(f"{at}: a token has {MIN_TOKEN} to {MAX_TOKEN} characters, a name at most {MAX_NAME}")
        digest = hashlib.sha256(token.encode()).digest()
        if digest in callers:
            raise TokenFileError(f"{at}: {callers[digest].name} has this token, too; give each caller its own")
        callers[digest] = Caller(who, "gateway" if role == "gateway" else "operator")
    if not 1 <= len(callers) <= MAX_TOKENS:
        raise TokenFileError(f"{where}: {len(callers)} tokens, give 1 to {MAX_TOKENS}, one per line")
    return CallerTokens(callers)


def read(path: Path | None, environment: Mapping[str, str]) -> CallerTokens:
    """From a file; without one from the variable, which has the same lines.

    :raises PlatformError: there are no tokens, or they cannot be parsed.
    """
    if path is None:
        if VARIABLE not in environment:
            raise InvalidError(f"there are no tokens: name a file with --tokens, or set {VARIABLE}")
        return parse(environment[VARIABLE], VARIABLE)
    try:
        return parse(path.read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise TokenFileError(f"{path} cannot be read: {type(error).__name__}") from None
