"""Gives copies that have become writers the settings of their sources.

A copy must not have all of these settings while it is one (`ha_core.plan.facts.settings`). No client waits for them,
and the switch succeeds without them: settings that cannot be applied are reported.
"""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import KnownTopic, LostTail, Mirror, SwitchOperation
from ha_core.operations.copies.syncing.topics import become_writers
from ha_core.operations.engine.journal import Journal
from ha_core.plan.facts.settings import Settings, settings_of
from ha_core.plan.facts.verdict import listed


def apply_source_settings(journal: Journal[SwitchOperation]) -> None:
    """Runs right after the cut: before it the copy keeps producers' timestamps even if the source's brokers would stamp
    records, and later it would revert changes that clients have made meanwhile. Best effort, and done once."""
    operation = journal.operation
    if not operation.evidence.went_to_copies or operation.evidence.copies_set:
        return
    mirrors = {name: _ended(journal, name) for name in operation.evidence.went_to_copies}
    with journal.step("settings") as seen:
        unset: dict[str, str] = {}
        sources = _sources(journal, mirrors)
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


def _sources(journal: Journal[SwitchOperation], mirrors: Mapping[str, Mirror]) -> Mapping[str, Settings]:
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
