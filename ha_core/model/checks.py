"""Notes of checks and changes by which `switchyard status --check` knows ages, and changes in force nowhere."""

from ha_core.model.document import Document


class SeenProblems(Document):
    """`/seen_problems/{by}`: problems that the checks of one user and host see, and since when they do.

    Each has a document of its own: two hosts may see different problems, and neither resets the other's times.
    """

    FOLDER = "/seen_problems"
    KEY = "by"
    PLAIN_BYTES = 4096

    by: str
    at: str
    """Newest check that is noted. UTC, ISO 8601."""
    since: dict[str, str]
    """Code and subject → first check that saw it. UTC, ISO 8601."""


class PlatformChange(Document):
    """`/platform_changes/{kind}`: the newest change of the platform's entries of a kind, noted by its writer.

    Gateways and the service that publishes quotas do not read it. It shows that a change is in force nowhere.
    """

    FOLDER = "/platform_changes"
    KEY = "kind"

    kind: str
    changed_us: int
    """Time of the change, unique in its database."""
    by: str
    database: str = ""
    """Where the writer has made it, without a password; empty: unknown."""
    elsewhere_us: tuple[int, ...] = ()
    """Changes up to which gateways served then, of another database than this one."""
