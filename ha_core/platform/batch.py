"""Many changes at once, from an operator's form: compared with the current entries, and made in one transaction, or not
at all.

    put      users:  [{name: alice, owner: shop, groups: [tills, counters]}]
             rules:  [{principal: "User:alice", operation: read, resource_type: topic, name: orders}]
             quotas: [{user: alice, topic: orders, producer_byte_rate: 1000000, consumer_byte_rate: null}]
    delete   rules:  [{principal: "User:bob", operation: write, resource_type: topic, name: till-, pattern: prefixed}]
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ha_core.platform.changing import Edit
from ha_core.platform.entry import kind_of
from ha_core.platform.errors import InvalidError
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.platform.scram import ScramKeys
from ha_core.platform.wanted import WantedEntry, without_races
from ha_core.platform.words import short
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.sasl_scram import HASHES, parse_key

MAX_ENTRIES = 2000
MAX_TOLD = 20
"""Invalid entries that an error lists."""
Keys = Mapping[str, Mapping[str, ScramKeys]]
"""User → mechanism → keys of the password."""


class Step(NamedTuple):
    """
    :ivar what: made, changed or deleted; `stands`: nothing, it is so already.
    :ivar edit: None: there is nothing to do.
    """

    kind: str
    value: str
    what: str
    edit: Edit | None


def wanted_entries(put: object, delete: object, keys: Keys | None = None) -> tuple[WantedEntry, ...]:
    """The entries of a form: of each field, a list for each kind.

    :param keys: of users who do not exist yet; a password that a user has since stays.
    :raises InvalidError: it is no such form, or names hidden fields.
    """
    entries = (*_entries(put, "put", gone=False, keys=keys or {}), *_entries(delete, "delete", gone=True, keys={}))
    if not 1 <= len(entries) <= MAX_ENTRIES:
        raise InvalidError(f"{len(entries)} entries: give 1 to {MAX_ENTRIES} at once")
    created = {entry.value.get("name") for entry in entries if entry.kind is UserEntry and not entry.gone}
    if strange := sorted((keys or {}).keys() - created):
        raise InvalidError(f"there are keys for {', '.join(map(short, strange))}, whom the form does not put")
    return entries


def planned(registry: Platform, wanted: Sequence[WantedEntry]) -> tuple[Step, ...]:
    """The effect of each entry, without repetitions.

    :raises InvalidError: lists the invalid entries, up to a limit, with the reasons.
    """
    problems: list[str] = []
    steps: list[Step] = []
    entries: dict[tuple[str, str], WantedEntry] = {}
    for entry in wanted:
        text = json.dumps(entry.value, ensure_ascii=False, default=str)
        try:
            other = entries.setdefault((entry.kind.KIND, entry.key), entry)
            if other is entry:
                edit = entry.edit(registry.read)
                steps.append(Step(entry.kind.KIND, text, _what(edit), edit))
            elif entry.contradicts(other):
                problems.append(f"{entry.kind.KIND} {short(text)}: another one contradicts it")
        except InvalidError as error:
            problems.append(f"{entry.kind.KIND} {short(text)}: {error}")
    if problems:
        more = f" … and {len(problems) - MAX_TOLD} more" if len(problems) > MAX_TOLD else ""
        count = "1 entry is" if len(problems) == 1 else f"{len(problems)} entries are"
        raise InvalidError(f"{count} invalid. {'; '.join(problems[:MAX_TOLD])}{more}")
    return tuple(steps)


def made(
    registry: Platform, wanted: Sequence[WantedEntry], by: str, reason: str, dry_run: bool = False
) -> tuple[Step, ...]:
    """Make all changes, or check them in a dry run. Returns the steps.

    :raises InvalidError: nothing was changed.
    :raises BusyError: others keep changing the same entries; nothing was changed.
    """

    def attempt() -> tuple[Step, ...]:
        steps = planned(registry, wanted)
        if edits := [step.edit for step in steps if step.edit is not None]:
            registry.apply(edits, by, reason, dry_run)
        return steps

    return without_races(attempt)


def keys_of(document: object) -> Keys:
    """Parse the output of `switchyard users entry`.

    :raises InvalidError: it is not that. The text never contains a key.
    """
    if not isinstance(document, Mapping):
        raise InvalidError("the keys are not a mapping of users; write them with `switchyard users entry`")
    kept: dict[str, dict[str, ScramKeys]] = {}
    for user, entry in document.items():
        if not isinstance(user, str) or not isinstance(entry, Mapping) or not entry.keys() <= set(HASHES):
            raise InvalidError(
                f"the keys of {short(user)}: give {', '.join(HASHES)}, as `switchyard users entry` writes them"
            )
        for mechanism, text in entry.items():
            try:
                key = parse_key(mechanism, str(text))
            except LocalProtocolError as error:
                raise InvalidError(f"the keys of {short(user)}: {error}") from None
            kept.setdefault(user, {})[mechanism] = ScramKeys.of(key)
    return kept


def _entries(document: object, field: str, gone: bool, keys: Keys) -> Iterator[WantedEntry]:
    if document is None:
        return
    if not isinstance(document, Mapping):
        raise InvalidError(f"{field}: give a list for each kind, as `rules: [{{principal: …}}]`")
    for name, values in document.items():
        kind = kind_of(str(name))
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise InvalidError(f"{field}, {kind.KIND}: give a list of values, each with its fields as in REST")
        for value in values:
            if hidden := kind.HIDDEN & value.keys():
                raise InvalidError(f"{field}, {kind.KIND}: {min(hidden)} does not belong into a form, which many read")
            of_user = keys.get(str(value.get("name")), {}) if kind is UserEntry else {}
            yield WantedEntry(kind, value, gone, {"scram": dict(of_user)} if of_user else {})


def _what(edit: Edit | None) -> str:
    if edit is None:
        return "stands"
    if edit.entry is None:
        return "deleted"
    return "made" if edit.version is None else "changed"
