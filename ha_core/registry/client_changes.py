"""What clients of Kafka change through gateways, in Kafka's way: each rule and quota by itself, without a version.

What is to be made and is there already is well; what is to be taken away and is not there is, too. So whoever never
heard what came of it asks again. All that can be done of one request is done at once, or nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ha_core.model.access import AccessRule, ResourceType, access_rule
from ha_core.model.access_filter import RuleFilter
from ha_core.registry.changing import MAX_EDITS, Edit, put
from ha_core.registry.entry import Entry
from ha_core.registry.errors import BusyError, InvalidError, NotThereError, RegistryError, StaleVersionError
from ha_core.registry.kinds.rules import Rule
from ha_core.registry.reading import MAX_PAGE
from ha_core.registry.registry import Registry
from ha_core.registry.stored import Stored
from ha_core.registry.words import short

MAX_AT_ONCE = 1000
"""Rules, filters or quotas of one request."""
MAX_LOOKED_AT = 50_000
"""Rules that are gone through for filters of one request: some seconds."""
TRIES = 5
"""Somebody else may change the same meanwhile."""


class ClientChanges:
    """Of one user, through one gateway."""

    def __init__(self, registry: Registry, by: str, reason: str) -> None:
        self._registry, self._by, self._reason = registry, by, reason

    def create_rules(self, said: Sequence[Mapping[str, Any]]) -> tuple[list[RegistryError | None], int]:
        """→ of each why it was refused, None: it stands; and the time of the newest change, 0: nothing was changed.

        :raises RegistryError: nothing was changed.
        """
        _require_few(said, "rules")
        outcomes: list[RegistryError | None] = [None] * len(said)
        wanted: dict[str, Rule] = {}
        places: dict[str, list[int]] = {}
        for place, one in enumerate(said):
            try:
                rule = Rule.read(one)
            except InvalidError as error:
                outcomes[place] = error
                continue
            wanted[rule.key] = rule
            places.setdefault(rule.key, []).append(place)
        for _ in range(TRIES):
            new = [rule for key, rule in wanted.items() if self._registry.read.find("rules", key) is None]
            try:
                return outcomes, self._applied([put(rule) for rule in new])
            except StaleVersionError:
                continue
            except InvalidError as error:
                for key, why in _without_needed(new, error):
                    del wanted[key]
                    for place in places[key]:
                        outcomes[place] = why
        raise BusyError("others change the same rules again and again: try once more")

    def delete_rules(self, filters: Sequence[RuleFilter]) -> tuple[list[list[AccessRule]], int]:
        """→ of each filter the rules that it described, which are gone; and the time of the newest change.

        :raises RegistryError: nothing was changed.
        """
        _require_few(filters, "filters")
        for _ in range(TRIES):
            found = self._described(filters)
            versions = {one.key: one.version for described in found for one, _ in described}
            if len(versions) > MAX_EDITS:
                raise InvalidError(f"{len(versions)} rules would be deleted, {MAX_EDITS} at most: name fewer at once")
            try:
                made_us = self._applied([Edit("rules", key, None, version) for key, version in versions.items()])
            except (StaleVersionError, NotThereError):
                continue
            return [[rule for _, rule in described] for described in found], made_us
        raise BusyError("others change the same rules again and again: try once more")

    def _applied(self, edits: Sequence[Edit]) -> int:
        if not edits:
            return 0
        return max(made.changed_us for made in self._registry.apply(edits, self._by, self._reason))

    def _described(self, filters: Sequence[RuleFilter]) -> list[list[tuple[Stored, AccessRule]]]:
        left = MAX_LOOKED_AT
        found: list[list[tuple[Stored, AccessRule]]] = []
        for asked in filters:
            described: list[tuple[Stored, AccessRule]] = []
            for stored in self._candidates(asked):
                left -= 1
                if left < 0:
                    raise InvalidError(
                        f"more than {MAX_LOOKED_AT} rules would be gone through: name a principal, or fewer at once"
                    )
                rule = access_rule(stored.entry.model_dump()) if stored.entry is not None else None
                if rule is not None and asked.describes(rule):
                    described.append((stored, rule))
            found.append(described)
        return found

    def _candidates(self, asked: RuleFilter) -> Iterator[Stored]:
        mentioned: dict[str, str] = {}
        kind, _, name = (asked.principal or "").partition(":")
        if kind in ("User", "Group") and name != "*":
            mentioned[kind.lower()] = name
        if asked.resource_type is ResourceType.TOPIC and asked.name is not None and not asked.matching:
            mentioned["topic"] = asked.name
        after: str | None = ""
        while after is not None:
            page = self._registry.read.page("rules", after, MAX_PAGE, mentioned)
            yield from page.stored
            after = page.after


def _without_needed(entries: Sequence[Entry], error: InvalidError) -> Iterator[tuple[str, InvalidError]]:
    """Key of each of them that needs what is not there, and what that is.

    :raises InvalidError: that is not what is wrong.
    """
    missing = {(one["role"], one["name"]) for one in error.details.get("missing", ())}
    if not missing:
        raise error
    for entry in entries:
        lacks = [one for one in entry.mentions() if one.needed and (one.role, one.name) in missing]
        if lacks:
            said = ", ".join(f"{one.role} {short(one.name)}" for one in lacks)
            yield entry.key, InvalidError(f"there is no {said} on the platform: register it first")


def _require_few(said: Sequence[object], what: str) -> None:
    if len(said) > MAX_AT_ONCE:
        raise InvalidError(f"{len(said)} {what} in one request, {MAX_AT_ONCE} at most: send fewer at once")
