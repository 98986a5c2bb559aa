"""Partitions, settings and ACLs of mirrored topics, synced to the target."""

from collections.abc import Callable, Collection, Iterator, Mapping

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import KEYLESS, LEVEL_MS
from ha_core.kafka.errors import KafkaAdminError, NotReadyError
from ha_core.model import Mirror
from ha_core.operations.copies.syncing.pair import MirrorPair, Synced, SyncOvertakenError
from ha_core.operations.copies.syncing.rights import sync_rights
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.settings import TOGETHER, Settings, SettingsDue, as_copy, as_writer, keeps_all
from ha_core.plan.facts.verdict import amount, listed

SETTINGS_S, SETTINGS_PAUSE_S = 10.0, 0.1
"""Time that brokers may need to show a setting that their controller has accepted."""


def sync_topics(pair: MirrorPair) -> Synced:
    """Sync the differences; those that cannot be synced are findings. The failure of one part does not stop the others.

    :raises StoreError: the mirrors' present state is not known.
    """
    for topic, why in pair.held.items():
        pair.add_finding("settings", f"topic {topic}", f"{why}: it is left alone until that has ended")
    for part in (_grow, _set, sync_rights):
        pair.restart_age()
        try:
            part(pair, list(pair.mirrors))
        except KafkaAdminError as error:
            pair.add_finding(_WHAT[part], f"cluster {error.cluster}", str(error), stop=True)
        except SyncOvertakenError as error:
            pair.add_finding(_WHAT[part], f"cluster {pair.target.cluster.name}", f"{error}: the next look continues")
    return pair.synced("topics", len(pair.mirrors))


def _grow(pair: MirrorPair, topics: Collection[str]) -> None:
    """The target's count is read first: topics that grow meanwhile grow in the target first as well."""
    there, here = pair.target.partition_counts(topics), pair.source.partition_counts(topics)
    source, target = pair.source.cluster.name, pair.target.cluster.name
    wanted: dict[str, int] = {}
    for topic in topics:
        about, ours, theirs = f"topic {topic}", here.get(topic, 0), there.get(topic, 0)
        if not ours or not theirs:
            gone = source if not ours else target
            text = f"it does not exist in {gone}. `switchyard mirror unlink {topic} --to {target}` ends the mirror."
            pair.add_finding("partitions", about, text, stop=True)
        elif theirs > ours:
            text = (
                f"{target} has {amount(theirs, 'partition')}, {source} {ours}: none can be taken away. Give it as many "
                f"in {source}; or unlink it, delete the copy, and link it again."
            )
            pair.add_finding("partitions", about, text, stop=True)
        elif ours > theirs:
            wanted[topic] = ours
    refused = {} if pair.dry_run else pair.target.grow_topics(wanted, pair.topics_unchanged(wanted)) if wanted else {}
    for topic, count in wanted.items():
        if topic in refused:
            text = f"{source} has {amount(count, 'partition')}, and {target} refuses to have as many: {refused[topic]}"
            pair.add_finding("partitions", f"topic {topic}", text, stop=True)
        else:
            pair.changed("partitions", f"topic {topic}", f"{there[topic]} → {count} partitions")


def _set(pair: MirrorPair, topics: Collection[str]) -> None:
    due = settings_due(pair.source, pair.target, pair.mirrors, _by_reports(pair))
    for topic, one in due.items():
        if one.unknown:
            text = f"{pair.target.cluster.name} does not know {listed(one.unknown)}"
            pair.add_finding("settings", f"topic {topic}", text)
    changing = [topic for topic, one in due.items() if one.changes]
    refused = {} if pair.dry_run else alter(pair.target, due, pair.topics_unchanged(changing))
    for topic in changing:
        failed = refused.get(topic, {})
        for key, value in due[topic].changes.items():
            if key in failed:
                text, stop = _refused(key, value, failed[key], key in due[topic].instead)
                pair.add_finding("settings", f"topic {topic}", text, stop=stop)
            else:
                pair.changed("settings", f"topic {topic}", f"{key}{' removed' if value is None else f'={value}'}")


def _refused(key: str, value: str | None, why: str, bearable: bool) -> tuple[str, bool]:
    """The text for a setting that the target refuses; and whether an operator has to look."""
    what = f"{key} is not removed" if value is None else f"{key}={value} is not taken"
    if bearable:
        return (
            f"{what}: {why} The copy uses its source's value: one that the copy had before would stop it",
            False,
        )
    return f"{what}: {why} Repair that, or leave the setting alone (`mirror link --leave-setting`).", True


Keyless = Callable[[Mirror, Settings, int], bool]
"""Whether a mirror's copy is to accept records without a key, by its settings and its number of partitions."""


def _by_reports(pair: MirrorPair) -> Keyless:
    """A copy accepts records without a key from its link, or from a copier's report of a refused one, until it is
    level: a compacted source accepts no new ones."""
    reports = [partition for report in pair.store.mirror_reports().values() for partition in report.partitions]

    def keyless(mirror: Mirror, there: Settings, partitions: int) -> bool:
        reported = [report for report in reports if report.mirror == mirror.key]
        if any(KEYLESS in report.reason for report in reported):
            return True
        level = {report.partition for report in reported if report.state == "copying" and report.lag_ms is not None}
        lagging = any(report.lag_ms is None or report.lag_ms > LEVEL_MS for report in reported)
        return keeps_all(there) and (lagging or len(level) < partitions)

    return keyless


def settings_due(
    source: Admin, target: Admin, mirrors: Mapping[str, Mirror], keyless: Keyless
) -> dict[str, SettingsDue]:
    """The settings that each copy lacks; topics that are missing are left out.

    :raises KafkaAdminError: one of the clusters cannot be asked.
    """
    here, there = source.settings(mirrors), target.settings(mirrors)
    shapes = target.topics([*there], offsets=False)
    return {
        topic: as_copy(
            here[topic],
            there[topic],
            shapes[topic].replication,
            mirror.settings_left_alone,
            keyless=keyless(mirror, there[topic], shapes[topic].partitions),
        )
        for topic, mirror in mirrors.items()
        if topic in here and topic in there and topic in shapes
    }


def writer_settings_due(
    target: Admin, sources: Mapping[str, Settings], left_alone: Mapping[str, Collection[str]]
) -> dict[str, SettingsDue]:
    """The settings of `sources`, by topic, that topics in the target lack as writers; missing topics are left out.

    :param left_alone: topic → patterns of settings.
    :raises KafkaAdminError: the target cannot be asked.
    """
    there = target.settings(sources)
    shapes = target.topics([*there], offsets=False)
    return {
        topic: as_writer(here, there[topic], shapes[topic].replication, left_alone[topic])
        for topic, here in sources.items()
        if topic in there and topic in shapes
    }


def alter(target: Admin, due: Mapping[str, SettingsDue], still_ours: Callable[[], None]) -> dict[str, dict[str, str]]:
    """Make the changes, and return topic → setting → refusal. Brokers accept all changes of a topic or none, so after a
    refusal each change is tried alone, except those that without each other would delete records."""
    changes = {topic: one.changes for topic, one in due.items() if one.changes}
    failed: dict[str, dict[str, str]] = {}
    for topic in target.alter_settings(changes, still_ours) if changes else ():
        for some in _apart(changes[topic]):
            why = target.alter_settings({topic: some}, still_ours).get(topic)
            if why is None:
                continue
            failed.setdefault(topic, {}).update(dict.fromkeys(some, why))
            for instead in (due[topic].instead.get(key) for key in some):
                if instead:
                    target.alter_settings({topic: instead}, still_ours)
    return failed


def _apart(changes: Mapping[str, str | None]) -> Iterator[dict[str, str | None]]:
    together = {key: value for key, value in changes.items() if key in TOGETHER}
    if together:
        yield together
    yield from ({key: value} for key, value in changes.items() if key not in together)


def make_copies(
    environment: Environment,
    source: Admin,
    target: Admin,
    mirrors: Mapping[str, Mirror],
    still_ours: Callable[[], None],
    *,
    keyless: bool,
) -> None:
    """Give topics the settings of copies before the first record is copied: with other settings it would be refused, or
    differ from its source.

    :param keyless: accept records without a key, whatever their sources do; else that stays unchanged.
    :raises NotReadyError: brokers do not show the settings in time.
    :raises KafkaAdminError: one of the clusters cannot be asked.
    """
    deadline = environment.monotonic() + SETTINGS_S
    while True:
        due = settings_due(source, target, mirrors, lambda _, there, _count: keyless or keeps_all(there))
        late = sorted(topic for topic in mirrors if topic not in due or due[topic].changes)
        if not late:
            return
        if refused := alter(target, due, still_ours):
            for topic, keys in sorted(refused.items()):
                for key, why in keys.items():
                    environment.say(f"{topic}: {key} is not as a copy needs it: {why}")
            return
        if environment.monotonic() >= deadline:
            raise NotReadyError(
                target.cluster.name,
                f"does not show the settings of {listed(late)} after {SETTINGS_S:g} s. Check that its brokers are "
                "healthy, then try again.",
            )
        environment.sleep(SETTINGS_PAUSE_S)


def become_writers(
    target: Admin,
    sources: Mapping[str, Settings],
    mirrors: Mapping[str, Mirror],
    still_ours: Callable[[], None],
) -> dict[str, dict[str, str]]:
    """Give copies that become writers the settings of their sources, including those that a copy must not have. Returns
    the target's refusals, as `alter`.

    :param sources: topic → the settings of the source, now or, for a dead one, as last seen.
    :param mirrors: topic → its mirror.
    :raises KafkaAdminError: the target cannot be asked.
    """
    due = writer_settings_due(target, sources, {name: mirror.settings_left_alone for name, mirror in mirrors.items()})
    return alter(target, due, still_ours)


_WHAT: Mapping[object, str] = {_grow: "partitions", _set: "settings", sync_rights: "rights"}
