"""What can go wrong on the platform. Each text names the thing, the value and the way out; `code` is its name for
programs, and `details` what they can act on.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PlatformError(Exception):
    """Base of all errors of the platform. Nothing was written."""

    code: ClassVar[str] = "failed"

    def __init__(self, text: str, **details: Any) -> None:
        super().__init__(text)
        self.details = details


class InvalidError(PlatformError):
    """What was said is against the rules for names, values, or what has to exist."""

    code = "invalid"


class NotThereError(PlatformError):
    """There is no such kind, or nothing of it by that key."""

    code = "not_there"


class StaleVersionError(PlatformError):
    """Somebody else changed it, or made it, before."""

    code = "stale_version"

    def __init__(self, kind: str, key: str, expected: int | None, found: int | None) -> None:
        """:param expected: the version that the change was based on; None: it should not exist.
        :param found: the version now; None: it does not exist.
        """
        if expected is None:
            text = f"{kind} {key!r} is there already, at version {found}: change that one, or choose another name"
        else:
            now = "does not exist" if found is None else f"is at version {found}"
            text = f"{kind} {key!r} {now}, the change was based on version {expected}: read it again and repeat it"
        super().__init__(text, kind=kind, key=key, expected=expected, current=found)


class StillUsedError(PlatformError):
    """Something that others refer to cannot go before them."""

    code = "still_used"


class NotPublishedError(PlatformError):
    """Quotas that are written here would not come into force."""

    code = "not_published"


class BusyError(PlatformError):
    """Others changed the same each time that it was tried."""

    code = "busy"


class DatabaseAwayError(PlatformError):
    """The database does not answer, or another writer holds it for longer than one waits."""

    code = "database_away"


class SchemaError(PlatformError):
    """The database has other tables than this version needs."""

    code = "schema"


class TokenFileError(PlatformError):
    """Tokens that cannot be read or understood; the text never has one."""

    code = "tokens"


class PlatformAwayError(PlatformError):
    """The platform does not answer as it should: a gateway keeps what it has."""

    code = "platform_away"


class PlatformRefusedError(PlatformError):
    """The platform was asked over HTTP, and refuses; the text is its own."""

    code = "refused"
