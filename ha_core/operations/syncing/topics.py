"""Partitions, settings and access rules of mirrored topics, brought to the target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Mirror
from ha_core.operations.syncing.pair import OvertakenError, Pair, Synced
from ha_core.operations.syncing.rights import sync_rights
from ha_core.plan.facts import Setting
from ha_core.plan.syncing import SettingsDue, as_copy, as_writer
from ha_core.plan.verdict import listed


def sync_topics(pair: Pair) -> Synced:
    """Brings over what is missing; what cannot be is a finding. One part that fails keeps none of the others.

    :raises StoreError: nobody can say whether the mirrors still stand.
    """
    for topic, why in pair.held.items():
        pair.tell("settings", f"topic {topic}", f"{why}: it is left alone until that has ended")
    for part in (_grow, _set, sync_rights):
        pair.looked_anew()
        try:
            part(pair, list(pair.mirrors))
        except KafkaAdminError as error:
            pair.tell(_WHAT[part], f"cluster {error.cluster}", str(error), stop=True)
        except OvertakenError as error:
            pair.tell(_WHAT[part], f"cluster {pair.target.cluster.name}", f"{error}: the next look goes on")
    return pair.synced("topics", len(pair.mirrors))


def _grow(pair: Pair, topics: Collection[str]) -> None:
    """The target first: what grows in both meanwhile does so there first as well."""
    there, here = pair.target.partition_counts(topics), pair.source.partition_counts(topics)
    source, target = pair.source.cluster.name, pair.target.cluster.name
    wanted: dict[str, int] = {}
    for topic in topics:
        about, ours, theirs = f"topic {topic}", here.get(topic, 0), there.get(topic, 0)
        if not ours or not theirs:
            gone = source if not ours else target
            text = f"it does not exist in {gone}. `switchyard mirror unlink {topic} --to {target}` ends the mirror."
            pair.tell("partitions", about, text, stop=True)
        elif theirs > ours:
            text = (
                f"{target} has {theirs} partitions, {source} {ours}: none can be taken away. Give it as many in "
                f"{source}; or unlink it, delete the copy, and link it anew."
            )
            pair.tell("partitions", about, text, stop=True)
        elif ours > theirs:
            wanted[topic] = ours
    refused = {} if pair.dry_run else pair.target.grow_topics(wanted, pair.topics_unchanged(wanted)) if wanted else {}
    for topic, count in wanted.items():
        if topic in refused:
            text = f"{source} has {count} partitions, and {target} refuses to have as many: {refused[topic]}"
            pair.tell("partitions", f"topic {topic}", text, stop=True)
        else:
            pair.changed("partitions", f"topic {topic}", f"{there[topic]} → {count} partitions")


def _set(pair: Pair, topics: Collection[str]) -> None:
    due = settings_due(pair.source, pair.target, pair.mirrors, as_copy)
    for topic, one in due.items():
        if one.unknown:
            text = f"{pair.target.cluster.name} does not know {listed(one.unknown)}"
            pair.tell("settings", f"topic {topic}", text)
    changes = {topic: one.changes for topic, one in due.items() if one.changes}
    refused = {} if pair.dry_run else alter(pair.target, changes, pair.topics_unchanged(changes))
    for topic, wanted in changes.items():
        failed = refused.get(topic, {})
        for key, value in wanted.items():
            if key in failed:
                said = f"{key} is not taken away" if value is None else f"{key}={value} is not taken"
                text = f"{said}: {failed[key]} Mend that, or leave the setting alone (`mirror link --leave-setting`)."
                pair.tell("settings", f"topic {topic}", text, stop=True)
            else:
                pair.changed("settings", f"topic {topic}", f"{key}{' taken away' if value is None else f'={value}'}")


def settings_due(
    source: Admin, target: Admin, mirrors: Mapping[str, Mirror], rule: Callable[..., SettingsDue]
) -> dict[str, SettingsDue]:
    """What each topic's settings lack in the target, by `as_copy` or `as_writer`; topics that are missing are left out.

    :raises KafkaAdminError: one of the clusters cannot be asked.
    """
    return _due(source.settings(mirrors), target, mirrors, rule)


def _due(
    here: Mapping[str, Mapping[str, Setting]],
    target: Admin,
    mirrors: Mapping[str, Mirror],
    rule: Callable[..., SettingsDue],
) -> dict[str, SettingsDue]:
    there = target.settings(mirrors)
    replication = {name: one.replication for name, one in target.topics([*there], offsets=False).items()}
    return {
        topic: rule(here[topic], there[topic], replication[topic], mirror.settings_left_alone)
        for topic, mirror in mirrors.items()
        if topic in here and topic in there and topic in replication
    }


def alter(
    target: Admin, changes: Mapping[str, Mapping[str, str | None]], still_ours: Callable[[], None]
) -> dict[str, dict[str, str]]:
    """Makes the changes, and returns topic → setting → why not. Brokers take all changes of a topic or none, so where
    one is refused each is tried alone."""
    failed: dict[str, dict[str, str]] = {}
    for topic in target.alter_settings(changes, still_ours) if changes else ():
        alone = {key: target.alter_settings({topic: {key: value}}, still_ours) for key, value in changes[topic].items()}
        failed[topic] = {key: refused[topic] for key, refused in alone.items() if refused}
    return failed


def become_writers(
    target: Admin,
    sources: Mapping[str, Mapping[str, str]],
    mirrors: Mapping[str, Mirror],
    still_ours: Callable[[], None],
) -> dict[str, dict[str, str]]:
    """Gives copies that are written to from now on the settings of their sources, those that a copy must not have
    included. Returns what the target refuses, as `alter`.

    :param sources: topic → what was set for it in the source, now or, of a dead one, when it was last seen.
    :param mirrors: topic → its mirror.
    :raises KafkaAdminError: the target cannot be asked.
    """
    here = {name: {key: Setting(value, own=True) for key, value in one.items()} for name, one in sources.items()}
    due = _due(here, target, mirrors, as_writer)
    return alter(target, {topic: one.changes for topic, one in due.items() if one.changes}, still_ours)


_WHAT: Mapping[object, str] = {_grow: "partitions", _set: "settings", sync_rights: "rights"}
