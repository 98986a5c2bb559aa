"""One finding of a pre-flight."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, get_args

Level = Literal["error", "warning", "info"]
Cause = Literal["asked", "busy", "away"]
"""Cause of an error: the request has to change, another operation has to end, or a cluster has to come back."""
Code = Literal[
    # clusters and what is known of them
    "groups-of-nobody", "internal-topic", "default-stays",
    "unknown-cluster", "same-cluster", "masked-target", "masked-origin", "refused-account", "unhealthy-cluster",
    "unreachable-cluster", "no-describe-producers", "origin-answers", "origin-taken-for-dead", "last-seen",
    "never-seen", "group-last-seen",
    # the scope
    "unknown-user", "unseen-user", "dormant-use", "super-user", "bound-already", "bound-elsewhere", "local-names",
    "locked", "no-gateway", "nothing-to-move",
    # topics
    "unknown-topic", "deleted-topic", "written-in-target", "written-elsewhere", "crossing-ends", "crossing-elsewhere",
    "unknown-in-target", "deleted-in-target", "unknown-partitions", "partition-count", "foreign-data", "own-tail",
    "beyond-map",
    "below-map", "lost-records", "compacted", "transactional", "fewer-replicas", "fewer-in-sync", "other-users",
    "mirrored", "also-mirrored", "goes-to-copy", "copy-unknown",
    "copy-lags", "copy-empty", "copy-stopped", "copy-begins-later", "no-room-in-map", "tail-in-copy",
    "copy-differs", "copy-damaged", "not-compared",
    "not-in-sync", "under-replicated",
    "loop", "second-writer", "third-cluster", "name-taken",
    "not-created", "setting-refused", "setting-unknown", "setting-differs", "default-differs", "unsafe-origin",
    "narrower-limit",
    "moves-alone", "leaderless", "no-such-partition", "partition-elsewhere", "split-transactions", "damaged-map",
    "holds-records", "read-now", "offset-hole", "rate-too-low",
    # a returned cluster
    "tail-counted", "tail-differs", "tail-uncounted", "not-mirrored-back",
    # groups
    "coordinated-in-target", "coordinated-elsewhere", "shared-group", "members-in-target", "unknown-offsets",
    "refused-offsets", "joins-again", "unknown-group-user", "topic-crosses", "beyond-copy", "not-brought-over",
    "direct-group",
    # clients
    "client-version", "past-gateways", "open-transaction", "hanging-transaction",
    # cuts and sizes
    "old-gateways", "migrating", "less-safe", "compacted-above-cut", "no-predicted-cut", "cut-below-end",
    "idle-partitions", "takes-barrier", "too-large",
]  # fmt: skip
"""Identifies the finding for programs; the text is for people only."""
Unit = Literal[
    "", "records", "offsets", "ms", "partitions", "members", "clients", "transactions", "uses", "topics", "settings"
]
"""Unit of a verdict's number; empty: it has none."""
_ONE: Mapping[Unit, str] = {unit: unit.removesuffix("s") for unit in get_args(Unit) if unit != "ms"}
"""Unit → its singular."""
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """`error` refuses the move. `about` is the thing, `text` the finding, `remedy` the way out.

    `number` is its size in `unit`, for programs; `text` has it in words.
    """

    level: Level
    code: Code
    about: str
    text: str
    remedy: str = ""
    cause: Cause = "asked"
    number: int | None = None
    unit: Unit = ""

    @property
    def amount(self) -> str:
        """The number with its unit; empty: none."""
        if self.number is None:
            return ""
        return f"1 {_ONE.get(self.unit, self.unit)}" if self.number == 1 else f"{self.number:,} {self.unit}"

    @property
    def words(self) -> str:
        return f"{self.about}: {self.text} {self.remedy}".rstrip()


Verdicts = Iterator[Verdict]
error = partial(Verdict, "error")
warning = partial(Verdict, "warning")
info = partial(Verdict, "info")


def by_level(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Errors first."""
    return sorted(verdicts, key=lambda verdict: get_args(Level).index(verdict.level))


def refused(verdicts: Iterable[Verdict]) -> bool:
    """Whether there is an error."""
    return any(verdict.level == "error" for verdict in verdicts)


def stands(verdicts: Iterable[Verdict]) -> bool:
    """Whether a retry would be refused again: an error waits for neither another operation nor a cluster."""
    return any(verdict.level == "error" and verdict.cause == "asked" for verdict in verdicts)


def listed(items: Iterable[str]) -> str:
    """The first few of `items`, and the number of the rest."""
    names = list(items)
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def amount(count: int, thing: str, one: str = "", many: str = "") -> str:
    """`1 topic`, `2,000 topics`; with the verb for one and for many, `1 topic is` and `2,000 topics are`."""
    return f"{count:,} {thing} {one}".rstrip() if count == 1 else f"{count:,} {thing}s {many}".rstrip()


def duration(seconds: float) -> str:
    """A duration in the largest unit that fits twice."""
    for unit, length_s in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:,.0f} {unit}"
    return f"{seconds:.0f} s"
