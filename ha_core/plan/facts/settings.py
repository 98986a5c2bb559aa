"""Settings that a topic needs in another cluster to behave there as it does here. No effects.

Brokers' defaults apply to settings that a topic does not set, and two clusters differ in their defaults. So effective
values are compared, whether they are the topic's own or not: if a default of the other cluster does not fit, the topic
gets its own value there. So a topic keeps its contract in every move: the records that it accepts, how long it keeps
them, and how safely.

A copy has looser settings than its source, because it has to accept the records that its source *holds*, not those that
its source would accept today: a lower limit, another compression or a cleanup policy that was set later does not affect
records that are already in the source. A switch that makes the copy the writer gives it all settings of its source
(`as_writer`). Settings that name brokers, or trade records for uptime, are the target's own while the topic is a copy.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from ha_core.plan.facts.clusters import TopicSetting

MIN_IN_SYNC = "min.insync.replicas"
POLICY, RETENTION_MS, RETENTION_BYTES = "cleanup.policy", "retention.ms", "retention.bytes"
SEGMENT_BYTES = "segment.bytes"
UNCLEAN = "unclean.leader.election.enable"
STAMPS = "message.timestamp.type"
DIFFERENCE = "message.timestamp.difference.max.ms"
BEFORE, AFTER = "message.timestamp.before.max.ms", "message.timestamp.after.max.ms"
NEVER_CARRIED = ("*.replication.throttled.replicas",)
"""They name brokers by id."""
NOT_CARRIED = (UNCLEAN,)
"""Not carried to a copy. A copy that loses records by an unclean election stops, and has to be made again."""
OUTDATED = frozenset({"message.format.version", "message.downconversion.enable"})
"""Newer brokers do not know them, and do not need them."""
TOGETHER = frozenset({POLICY, RETENTION_MS, RETENTION_BYTES})
"""A topic's changes of these go in one request or not at all: a policy without its retention would delete records."""
_FOREVER = str((1 << 63) - 1)
_LARGEST = str((1 << 31) - 1)
_TIMES: Mapping[str, str] = {STAMPS: "CreateTime", DIFFERENCE: _FOREVER, BEFORE: _FOREVER, AFTER: _FOREVER}
"""LogAppendTime would give records new timestamps, and a default bound of the brokers (an hour ahead, from Kafka 4.0
on) would refuse records that the source has. Operators cannot exclude these: the copy would have other records."""
_TAKES_ALL: Mapping[str, str] = {"max.message.bytes": _LARGEST, "compression.type": "producer", UNCLEAN: "false"}
OF_A_COPY: Mapping[str, str] = {**_TIMES, **_TAKES_ALL}
"""Settings of a copy, as far as its brokers know them."""
_KEEPS_ALL: Mapping[str, str] = {POLICY: "delete", RETENTION_MS: "-1", RETENTION_BYTES: "-1"}

Settings = Mapping[str, TopicSetting]


class SettingComparison(NamedTuple):
    """A setting that changes which records clients can write or read, or how safe these are.

    :ivar does: whether the second value is good enough in place of the first, with so many replicas.
    :ivar otherwise: effect if it is not.
    :ivar loses: whether producers or readers would lose records by the second value.
    """

    does: Callable[[str, str, int], bool]
    otherwise: str
    loses: Callable[[str, str], bool] = lambda _wanted, _there: False


def _same(wanted: str, there: str, _replicas: int) -> bool:
    return wanted == there


def _same_policy(wanted: str, there: str, _replicas: int) -> bool:
    return _policies(wanted) == _policies(there)


def _safe_enough(wanted: str, there: str, replicas: int) -> bool:
    """More in-sync replicas than required do no harm."""
    if wanted.isdecimal() and there.isdecimal():
        return int(there) >= min(int(wanted), replicas)
    return wanted == there


def _no_less_clean(wanted: str, there: str, _replicas: int) -> bool:
    return there in {wanted, "false"}


def _smaller(wanted: str, there: str) -> bool:
    return wanted.isdecimal() and there.isdecimal() and int(there) < int(wanted)


def _always(_wanted: str, _there: str) -> bool:
    return True


COMPARISONS: Mapping[str, SettingComparison] = {
    "max.message.bytes": SettingComparison(_same, "records of another size are taken", _smaller),
    BEFORE: SettingComparison(_same, "records are refused by another age"),
    AFTER: SettingComparison(_same, "records are refused by another time ahead"),
    DIFFERENCE: SettingComparison(_same, "records are refused by another age"),
    STAMPS: SettingComparison(_same, "records get their times in another way"),
    POLICY: SettingComparison(_same_policy, "records are kept by another rule, or refused without a key", _always),
    RETENTION_MS: SettingComparison(_same, "records are kept for another time"),
    RETENTION_BYTES: SettingComparison(_same, "another number of bytes is kept"),
    "delete.retention.ms": SettingComparison(_same, "tombstones are kept for another time"),
    "min.compaction.lag.ms": SettingComparison(_same, "records are compacted after another time"),
    "max.compaction.lag.ms": SettingComparison(_same, "records are compacted after another time"),
    "compression.type": SettingComparison(_same, "records are compressed in another way"),
    MIN_IN_SYNC: SettingComparison(_safe_enough, "records are acknowledged with fewer replicas in sync"),
    UNCLEAN: SettingComparison(_no_less_clean, "an unclean election may lose acknowledged records"),
}
_OF_DELETION = frozenset({RETENTION_MS, RETENTION_BYTES})
_OF_COMPACTION = frozenset({"delete.retention.ms", "min.compaction.lag.ms", "max.compaction.lag.ms"})


@dataclass(frozen=True, slots=True)
class SettingsDue:
    """:ivar changes: setting → its value; None: to be removed.
    :ivar unknown: settings of the source that the target's brokers do not know.
    :ivar explicit: changes for which the source has no value of its own → default of the target's brokers; "": unknown.
    :ivar instead: changes that a copy can do without if the target refuses them → the changes in their place.
    """

    changes: Mapping[str, str | None]
    unknown: tuple[str, ...] = ()
    explicit: Mapping[str, str] = field(default_factory=dict)
    instead: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Differing:
    """A setting of a topic that exists in both clusters."""

    key: str
    here: str
    there: str

    @property
    def loses(self) -> bool:
        return COMPARISONS[self.key].loses(self.here, self.there)

    @property
    def words(self) -> str:
        return f"{self.key} is {self.there}, not {self.here}: {COMPARISONS[self.key].otherwise}"


def settings_of(own: Mapping[str, str], defaults: Mapping[str, str]) -> dict[str, TopicSetting]:
    """:param own: set for the topic itself.
    :param defaults: of its brokers.
    """
    inherited = {key: TopicSetting(value, own=False) for key, value in defaults.items()}
    return inherited | {key: TopicSetting(value, own=True, default=defaults.get(key)) for key, value in own.items()}


def mattering(defaults: Mapping[str, str]) -> dict[str, str]:
    """The defaults that are worth recording."""
    return {key: value for key, value in defaults.items() if key in COMPARISONS}


def to_create(
    source: Settings, defaults: Mapping[str, str], replication: int, excluded: Collection[str] = ()
) -> SettingsDue:
    """Settings with which to create a topic in the target so that it behaves as in the source. The target itself
    reports those that it does not know (`kafka/creation`).

    :param defaults: known defaults of the target's brokers; empty: unknown.
    :param replication: replicas of the topic in the target, the most that can be in sync.
    :param excluded: patterns of settings that are left alone.
    """
    there = {key: TopicSetting(value, own=False) for key, value in defaults.items()} or None
    return _due(source, there, replication, (*NEVER_CARRIED, *excluded), complete=False)


def as_writer(source: Settings, target: Settings, replication: int, excluded: Collection[str] = ()) -> SettingsDue:
    """Changes after which producers find the source's settings in the target. Parameters as in `to_create`."""
    return _due(source, target, replication, (*NEVER_CARRIED, *excluded))


def as_copy(
    source: Settings,
    target: Settings,
    replication: int,
    excluded: Collection[str] = (),
    *,
    keyless: bool = False,
) -> SettingsDue:
    """Changes that the target's topic needs as a copy of the source's.

    :param keyless: the source is compacted but may hold older records without a key. A compacted copy would refuse
        them, so it is not compacted yet, and keeps everything.
    """
    ours = {key: value for key, value in _loosened(source, keyless).items() if key in target}
    ours = {key: value for key, value in ours.items() if key in _TIMES or not named(key, excluded)}
    due = _due(source, target, replication, (*NEVER_CARRIED, *NOT_CARRIED, *excluded, *ours))
    changes = {key: value for key, value in ours.items() if target[key].value != value}
    writer = as_writer(source, target, replication, excluded).changes
    less = {one.key for one in differing(source, target, replication, excluded) if one.loses}
    instead = {key: {key: writer[key]} if key in less else {} for key in changes if key in _TAKES_ALL}
    return SettingsDue({**due.changes, **changes}, due.unknown, due.explicit, instead)


def _loosened(source: Settings, keyless: bool) -> dict[str, str]:
    """The copy has other segment boundaries, so a bound of bytes might delete records that the source keeps: it gets
    one segment more."""
    if keyless and compacts(source):
        return {**OF_A_COPY, **_KEEPS_ALL}
    kept, segment = (source[key].value if key in source else None for key in (RETENTION_BYTES, SEGMENT_BYTES))
    if kept is None or segment is None or not (kept.isdecimal() and segment.isdecimal()):
        return {**OF_A_COPY}
    return {**OF_A_COPY, RETENTION_BYTES: str(int(kept) + int(segment))}


def compacts(settings: Settings) -> bool:
    return "compact" in _policies((POLICY in settings and settings[POLICY].value) or "")


def keeps_all(settings: Settings) -> bool:
    """Whether a copy has the settings of `keyless`."""
    return all(key in settings and settings[key].value == value for key, value in _KEEPS_ALL.items())


def differing(
    source: Settings, target: Settings, replication: int, excluded: Collection[str] = ()
) -> Iterator[Differing]:
    """Relevant settings whose effective value in the target is not good enough."""
    for key, (value, _, _) in sorted(_translated(source, target).items()):
        there = target[key].value if key in target else None
        if value is None or there is None or not _counts(key, source) or named(key, excluded):
            continue
        if not COMPARISONS[key].does(value, there, replication):
            yield Differing(key, value, there)


def named(key: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(key, pattern) for pattern in patterns)


def _due(
    source: Settings, target: Settings | None, replication: int, excluded: Collection[str], *, complete: bool = True
) -> SettingsDue:
    """:param complete: `target` has all settings that its brokers know."""
    changes: dict[str, str | None] = {}
    explicit: dict[str, str] = {}
    unknown: list[str] = []
    source = _translated(source, target)
    for key, (value, own, _) in sorted(source.items()):
        if value is None or named(key, excluded):
            continue
        wanted = str(min(int(value), replication)) if key == MIN_IN_SYNC and value.isdecimal() else value
        there = _UNKNOWN if target is None else target.get(key)
        if own and there is None and complete:
            unknown.append(key)
        elif own and (there is None or there[:2] != (wanted, True)):
            changes[key] = wanted
        elif not own and there is not None and _counts(key, source):
            if there.own and key != MIN_IN_SYNC and _does(key, value, there.beneath, replication):
                changes[key] = None
            elif not _does(key, value, there.value, replication):
                changes[key], explicit[key] = wanted, there.beneath or ""
    for key, setting in sorted((target or {}).items()):
        # Without its own value the copy would get the brokers' default of in-sync replicas, which may exceed its
        # number of replicas.
        here = source.get(key)
        goes = here is None or not (here.own or (_counts(key, source) and here.value is not None))
        if setting.own and goes and key != MIN_IN_SYNC and not named(key, excluded):
            changes[key] = None
    return SettingsDue(changes, tuple(unknown), explicit)


_UNKNOWN = TopicSetting(None, own=False)


def _does(key: str, wanted: str, there: str | None, replication: int) -> bool:
    return there is not None and COMPARISONS[key].does(wanted, there, replication)


def _counts(key: str, source: Settings) -> bool:
    """Whether the setting matters with the source's cleanup policy."""
    policies = _policies((POLICY in source and source[POLICY].value) or "delete")
    if key in _OF_DELETION:
        return "delete" in policies
    return "compact" in policies if key in _OF_COMPACTION else key in COMPARISONS


def _translated(source: Settings, target: Settings | None) -> dict[str, TopicSetting]:
    """The source's timestamp bounds under the names that the target's brokers know. Kafka 3.6 split one bound for both
    directions into two, which default to it; Kafka 4.0 dropped it."""
    settings = dict(source)
    if target is None:
        return settings
    setting, two = source.get(DIFFERENCE), [source[key] for key in (BEFORE, AFTER) if key in source]
    if BEFORE in target:
        for key in (BEFORE, AFTER):
            if setting is not None and (
                key not in source or (DIFFERENCE not in target and source[key].value == _FOREVER)
            ):
                settings[key] = setting._replace(own=setting.own and DIFFERENCE not in target)
    elif two and DIFFERENCE in target:
        values = [int(bound.value) for bound in two if bound.value is not None]
        settings[DIFFERENCE] = TopicSetting(str(max(values)), any(bound.own for bound in two))
    for key in (DIFFERENCE, BEFORE, AFTER):
        if key not in target:
            settings.pop(key, None)
    return settings


def _policies(value: str) -> frozenset[str]:
    return frozenset(part.strip() for part in value.split(",") if part.strip())
