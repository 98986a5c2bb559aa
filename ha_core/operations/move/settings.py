"""Gives the topics in the target the settings that clients know from the origin, before the cut and right after it.

Steps may be minutes apart. The client that changes a setting meanwhile gets a success, so the change has to hold after
the cut as well: if a raised retention were lost, the target would delete records. A copy must not have all of the
settings of its source while it is one (`ha_core.plan.facts.settings`): it gets them when it has become the writer. No
client waits for them, and the move succeeds without them: settings that cannot be applied are reported.
"""

from collections.abc import Collection, Mapping

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import KnownTopic, LostTail, Mirror, MoveOperation, SwitchOperation
from ha_core.operations.copies.syncing.topics import alter, become_writers, writer_settings_due
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.plan.facts.settings import Settings, SettingsDue, settings_of
from ha_core.plan.facts.verdict import listed

Shapes = Mapping[str, Settings]
"""By topic."""


def follow_origin(journal: Journal[MoveOperation], names: Collection[str]) -> Shapes:
    """Set the topics of `names` that the operation has made to the origin's current settings, and return these. No
    client is led to the topics yet.

    :raises StepFailedError: the target refuses one.
    :raises KafkaAdminError: a cluster cannot be asked.
    """
    made = sorted({*names}.intersection(journal.operation.evidence.created))
    if not made or journal.request.mode == "forced":
        return {}
    here = journal.origin.settings(made)
    due = _due(journal, here)
    if changing := {name: settings_due for name, settings_due in due.items() if settings_due.changes}:
        with journal.step("settings") as seen:
            seen["changed"] = {name: dict(settings_due.changes) for name, settings_due in sorted(changing.items())}
            if refused := alter(journal.target, changing, journal.still_ours):
                raise StepFailedError(
                    f"{journal.request.target} refuses settings that were changed in {journal.request.origin} since "
                    f"the topics were made: {_words(refused)}. Change them back, or leave them alone "
                    "(--leave-setting), then start the move again."
                )
    return here


def copy_late_changes(journal: Journal[MoveOperation], before: Shapes) -> None:
    """Copy settings that were changed between `follow_origin` and the fence; after it gateways refuse changes.
    Runs after the cut, so that no client waits for it. Best effort: failures are reported.

    :param before: the result of `follow_origin`.
    """
    if not before:
        return
    try:
        here = journal.origin.settings(before)
        changing: dict[str, SettingsDue] = {}
        for name, due in _due(journal, here).items():
            changed = {key for key in due.changes if here[name].get(key) != before[name].get(key)}
            if changed:
                changing[name] = SettingsDue({key: due.changes[key] for key in changed})
        if changing:
            with journal.step("settings") as seen:
                seen["changed"] = {name: dict(settings_due.changes) for name, settings_due in sorted(changing.items())}
                refused = alter(journal.target, changing, journal.still_ours)
                if refused:
                    journal.environment.say(f"{_words(refused)}: set them in {journal.request.target} by hand")
    except KafkaAdminError as error:
        names = listed(sorted(before))
        journal.environment.say(f"settings of {names} that were changed right before the cut may be missing: {error}")


def _due(journal: Journal[MoveOperation], here: Shapes) -> dict[str, SettingsDue]:
    return writer_settings_due(journal.target, here, dict.fromkeys(here, journal.request.settings_left_alone))


def _words(refused: Mapping[str, Mapping[str, str]]) -> str:
    return "; ".join(f"{name}: {key}: {why}" for name, some in sorted(refused.items()) for key, why in some.items())


def apply_source_settings(journal: Journal[SwitchOperation]) -> None:
    """Runs right after the cut: before it the copy keeps producers' timestamps even if the source's brokers would stamp
    records, and later it would revert changes that clients have made meanwhile. Best effort, and done once."""
    operation = journal.operation
    if not operation.evidence.went_to_copies or operation.evidence.copies_set:
        return
    mirrors = {name: _ended(journal, name) for name in operation.evidence.went_to_copies}
    with journal.step("settings") as seen:
        unset: dict[str, str] = {}
        sources = _source_settings(journal, mirrors)
        unset |= {name: "the settings of its source are unknown" for name in mirrors if name not in sources}
        try:
            refused = become_writers(journal.target, sources, mirrors, journal.still_ours)
        except KafkaAdminError as error:
            unset |= {name: str(error) for name in sources}
        else:
            unset |= {name: "; ".join(f"{key}: {why}" for key, why in one.items()) for name, one in refused.items()}
        unset = {name: why for name, why in unset.items() if why}
        for name, why in sorted(unset.items()):
            journal.environment.say(f"{name} lacks settings of its source: {why}")
        seen.update(topics=len(mirrors), unset=unset)
        journal.note(unset=tuple(sorted(unset)), copies_set=True)


def without_settings(operation: SwitchOperation) -> str:
    """Settings that the operator has to set by hand; empty: none."""
    unset = operation.evidence.unset
    if not unset:
        return ""
    origin, target = operation.route
    return f"{listed(unset)} may lack settings in {target} that they had in {origin}: compare them"


def _ended(journal: Journal[SwitchOperation], name: str) -> Mirror:
    """The mirror that ended at the cut, as far as its policy is known."""
    operation, (origin, target) = journal.operation, journal.operation.route
    if (known := operation.evidence.ended.get(name)) is not None:
        return known
    tail = journal.environment.store.read(LostTail, LostTail.key_of(name, origin, operation.id))
    policy = {} if tail is None else tail[0].policy
    return Mirror.of(name, origin, target, operation.id, operation.started, operation.by, **policy)


def _source_settings(journal: Journal[SwitchOperation], mirrors: Mapping[str, Mirror]) -> Mapping[str, Settings]:
    """The settings of each topic in the origin; if that is dead, as they were last seen."""
    environment, request = journal.environment, journal.request
    if request.mode == "planned":
        try:
            # Not from the topics' descriptions: a broker that has not heard of a topic yet describes it without
            # settings.
            return journal.origin.settings(mirrors)
        except KafkaAdminError as error:
            environment.say(f"settings are taken as last seen: {error}")
    known = environment.store.known(KnownTopic, request.origin, mirrors)
    return {name: settings_of(one.config, one.defaults) for name, one in known.items()}
