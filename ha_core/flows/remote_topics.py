"""Computes the settings and ACLs that a remote topic gets from its source topic (KIP-382, KIP-787, KAFKA-14420)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from ha_core.flows.filters import Patterns
from ha_core.flows.own_filters import OwnFilter
from ha_core.plan.facts.clusters import DescribedSetting, TopicAcl
from ha_core.plan.facts.settings import AFTER, BEFORE

ALL, READ, WRITE = 2, 3, 4
"""Kafka's codes of ACL operations."""
_STATIC_BROKER, _DEFAULT = 4, 5
"""Kafka's codes of the level at which a setting is set."""
TIME_BOUNDS = (BEFORE, AFTER)
"""A remote topic has none. From Kafka 4.0 on brokers refuse records that are an hour ahead, and a source of an earlier
version holds such records, of producers with wrong clocks: the copy would stop at the first one (KIP-1030)."""
_UNBOUNDED = str((1 << 63) - 1)


@dataclass(frozen=True)
class SettingsRule:
    """
    :ivar exclude: settings that are never carried over (`config.properties.exclude`).
    :ivar defaults_from: the cluster whose defaults apply to remote topics (`use.defaults.from`).
    :ivar own: a filter of the operator's own, in place of `exclude`.
    """

    exclude: Patterns
    defaults_from: Literal["source", "target"] = "target"
    own: OwnFilter | None = None

    def carried(self, settings: Iterable[DescribedSetting]) -> dict[str, str | None]:
        """Setting → value for the remote topic; None: the target's default, so a value set on the topic is removed."""
        return {
            setting.name: setting.value if setting.level != _DEFAULT or self.defaults_from == "source" else None
            for setting in settings
            # A value from a broker's static file is not about the topic, and the target's brokers have their own.
            if not (setting.read_only or setting.sensitive or setting.level == _STATIC_BROKER)
            and self._may_carry(setting.name)
        }

    def of_remote(self, settings: Iterable[DescribedSetting], known: Collection[str]) -> dict[str, str | None]:
        """`carried`, without bounds for timestamps.

        :param known: settings that the target's brokers know.
        """
        unbounded = {name: _UNBOUNDED for name in TIME_BOUNDS if name in known and self._may_carry(name)}
        return self.carried(settings) | unbounded

    def _may_carry(self, name: str) -> bool:
        return not self.exclude.matches(name) if self.own is None else self.own.accepts(name)


def changes(wanted: Mapping[str, str | None], there: Mapping[str, str]) -> dict[str, str | None]:
    """Settings of the remote topic to set, or to remove (None).

    :param there: settings that are set on the remote topic itself.
    """
    return {name: value for name, value in wanted.items() if there.get(name) != value}


def remote_acls(acls: Iterable[TopicAcl], names: Mapping[str, str]) -> Iterator[TopicAcl]:
    """ACLs for remote topics: principals that may read the source topic may read the copy; only the copier writes it.

    ACLs of prefixes and of all topics are left out, as in MirrorMaker 2, since their patterns do not fit the names of
    remote topics.

    :param names: topic of the source → its name in the target.
    """
    for acl in acls:
        remote = names.get(acl.name)
        if remote is None or acl.pattern != "literal":
            continue
        may = acl.operation if acl.allows else None
        if may != WRITE:
            yield acl._replace(name=remote, operation=READ if may == ALL else acl.operation)
