"""Errors of the platform. Each text names the thing, the value and the way out; `code` is its name for
programs, and `details` has data for them.
"""

from typing import Any, ClassVar


class PlatformError(Exception):
    """Base of all errors of the platform. Nothing was written."""

    code: ClassVar[str] = "failed"

    def __init__(self, text: str, **details: Any) -> None:
        super().__init__(text)
        self.details = details


class InvalidError(PlatformError):
    """A name or value is against the rules, or a required entry does not exist."""

    code = "invalid"


class NotThereError(PlatformError):
    """The kind is unknown, or has no entry with this key."""

    code = "not_there"


class StaleVersionError(PlatformError):
    """Another caller has changed or created the entry first."""

    code = "stale_version"

    def __init__(self, kind: str, key: str, expected: int | None, found: int | None) -> None:
        """:param expected: the version that the change was based on; None: it should not exist.
        :param found: the version now; None: it does not exist.
        """
        if expected is None:
            text = f"{kind} {key!r} exists already, at version {found}: change it, or choose another name"
        else:
            now = "does not exist" if found is None else f"is at version {found}"
            text = f"{kind} {key!r} {now}, the change was based on version {expected}: read it again and repeat it"
        super().__init__(text, kind=kind, key=key, expected=expected, current=found)


class StillUsedError(PlatformError):
    """An entry that others refer to cannot be deleted before them."""

    code = "still_used"


class NotPublishedError(PlatformError):
    """Quotas that are written here would not come into force."""

    code = "not_published"


class BusyError(PlatformError):
    """Others changed the same entries in every attempt."""

    code = "busy"


class DatabaseAwayError(PlatformError):
    """The database does not answer, or another writer holds it longer than the timeout."""

    code = "database_away"


class SchemaError(PlatformError):
    """The tables do not have the version that this release needs."""

    code = "schema"


class TokenFileError(PlatformError):
    """Tokens cannot be read or parsed; the text never contains one."""

    code = "tokens"


class PlatformAwayError(PlatformError):
    """The platform does not answer correctly: a gateway keeps its state."""

    code = "platform_away"


class PlatformRefusedError(PlatformError):
    """The platform refuses a request over HTTP; the text is the platform's."""

    code = "refused"
