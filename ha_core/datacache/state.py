"""The state of a cache: for `status`, metrics, and users that have to know the age of the content."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """
    :ivar every_s: how often the source is read without a notice of a change.
    :ivar hold_s: how long a node that cannot read may hold up the others.
    :ivar check_s: how often the whole content is compared with the source.
    :ivar page_rows: number of changes in one question to the source.
    """

    every_s: float = 60.0
    hold_s: float = 10.0
    check_s: float = 600.0
    page_rows: int = 5000

    def __post_init__(self) -> None:
        for name in ("every_s", "hold_s", "check_s"):
            value = getattr(self, name)
            if not 0 < value <= 86_400:
                raise ValueError(f"{name} is {value}: it must be more than 0 and at most a day, 86400")
        if not 1 <= self.page_rows <= 100_000:
            raise ValueError(f"page_rows is {self.page_rows}: it must be 1 to 100000")


@dataclass(frozen=True, slots=True)
class CacheState:
    """
    :ivar commit_us: of the served content, by the source's times; None: nothing is served yet.
    :ivar agreed_us: the newest commit time that this node knows; if greater than `commit_us`, this node lags.
    :ivar read_us: time up to which this node has read; None: nothing yet.
    :ivar rows: keys in the served content.
    :ivar uncommitted: further versions that are kept.
    :ivar age_s: time since the served content was all that the source had; None: never since the start.
    :ivar checked_s: time since it was compared with the source and equal; None: never since the start.
    :ivar error: why the last read, comparison or agreement failed; empty: it did not.
    :ivar kept_error: why the content would be lost by a restart; empty: it would not, or need not be kept.
    :ivar connected: to ZooKeeper.
    :ivar members: live nodes at the last look.
    :ivar leader: the node that writes the next commit time; None: no node can.
    :ivar holding_up: nodes that the others wait for.
    :ivar left_out: nodes that lag and are not waited for.
    :ivar reloads: how often everything was read anew.
    :ivar refused_us: the last commit time that this node refused, because its content differed; 0: none.
    """

    name: str
    node: str
    commit_us: int | None
    agreed_us: int | None
    read_us: int | None
    rows: int
    uncommitted: int
    age_s: float | None
    checked_s: float | None
    error: str
    kept_error: str
    connected: bool
    members: int
    leader: str | None
    holding_up: tuple[str, ...]
    left_out: tuple[str, ...]
    reloads: int
    refused_us: int
