"""How a cache stands: for `status`, metrics, and whoever has to know how old what is served may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """
    :ivar every_s: how often the source is read when nobody says that it was changed.
    :ivar hold_s: how long a node that cannot read may hold the others up.
    :ivar check_s: how often all that is served is compared with the source.
    :ivar page_rows: so many changes are asked for at once.
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
    :ivar commit_us: of what is served, by the source's times; None: nothing is served yet.
    :ivar agreed_us: the newest commit time that this node knows of; greater than `commit_us`: this node is behind.
    :ivar read_us: up to where this node has read; None: nothing yet.
    :ivar rows: keys in what is served.
    :ivar uncommitted: versions that are kept besides.
    :ivar age_s: so long ago what is served was all that the source had; None: never since the start.
    :ivar checked_s: so long ago it was compared with the source and equal to it; None: never since the start.
    :ivar error: why it was not read, compared or agreed on last time; empty: it was.
    :ivar kept_error: why what is served would not be there after a restart; empty: it would, or is not to be.
    :ivar connected: to ZooKeeper.
    :ivar members: live nodes, as last seen.
    :ivar leader: who writes the next commit time; None: nobody who can.
    :ivar holding_up: for which nodes the others wait.
    :ivar left_out: which nodes are behind, and waited for by nobody.
    :ivar reloads: how often everything was read anew.
    :ivar refused_us: the last commit time to which this node did not go, because it has read something else; 0: none.
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
