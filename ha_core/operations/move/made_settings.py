"""Copies settings that clients change in the origin before the cut to the topics that a move has made in the target.

Steps may be minutes apart. The client that changes a setting meanwhile gets a success, so the change has to hold after
the cut as well: if a raised retention were lost, the target would delete records.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import MoveOperation
from ha_core.operations.copies.syncing.topics import alter
from ha_core.operations.engine.errors import StepFailedError
from ha_core.operations.engine.journal import Journal
from ha_core.plan.facts.settings import Settings, SettingsDue, as_writer
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
    if changing := {name: one for name, one in due.items() if one.changes}:
        with journal.step("settings") as seen:
            seen.update(_told(changing))
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
        for name, one in _due(journal, here).items():
            changed = {key for key in one.changes if here[name].get(key) != before[name].get(key)}
            if changed:
                changing[name] = SettingsDue({key: one.changes[key] for key in changed})
        if changing:
            with journal.step("settings") as seen:
                seen.update(_told(changing))
                refused = alter(journal.target, changing, journal.still_ours)
                if refused:
                    journal.environment.say(f"{_words(refused)}: set them in {journal.request.target} by hand")
    except KafkaAdminError as error:
        names = listed(sorted(before))
        journal.environment.say(f"settings of {names} that were changed right before the cut may be missing: {error}")


def _due(journal: Journal[MoveOperation], here: Shapes) -> dict[str, SettingsDue]:
    target: Admin = journal.target
    there, shapes = target.settings(here), target.topics([*here], offsets=False)
    alone = journal.request.settings_left_alone
    return {
        name: as_writer(source, there[name], shapes[name].replication, alone)
        for name, source in here.items()
        if name in there and name in shapes
    }


def _told(due: Mapping[str, SettingsDue]) -> dict[str, Any]:
    return {"changed": {name: dict(one.changes) for name, one in sorted(due.items())}}


def _words(refused: Mapping[str, Mapping[str, str]]) -> str:
    return "; ".join(f"{name}: {key}: {why}" for name, some in sorted(refused.items()) for key, why in some.items())
