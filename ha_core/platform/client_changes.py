"""Changes of Kafka's clients through gateways, in Kafka's way: single rules and quotas, without versions.

They are idempotent: creating an existing rule succeeds, and so does deleting one that is gone. A client that missed the
answer repeats its request. The valid parts of a request are made in one transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from ha_core.model.access import AccessRule, ResourceType, access_rule
from ha_core.model.access_filter import RuleFilter
from ha_core.platform.changing import MAX_EDITS, Edit, put
from ha_core.platform.entry import Entry, key_of
from ha_core.platform.errors import BusyError, InvalidError, NotThereError, PlatformError, StaleVersionError
from ha_core.platform.kinds.quotas import LIMITS, QuotaEntry
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.platform import Platform
from ha_core.platform.reading import MAX_PAGE
from ha_core.platform.stored import StoredEntry
from ha_core.platform.words import short

MAX_AT_ONCE = 1000
"""Rules, filters or quotas of one request."""
MAX_LOOKED_AT = 50_000
"""Rules that one request's filters may read: some seconds."""
TRIES = 5
"""Attempts, as other writers may change the same entries."""


class QuotaLimitsChange(BaseModel):
    """The new limits of one quota; null removes a limit."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    user: str | None = None
    topic: str | None = None
    instance: str | None = None
    limits: Annotated[
        dict[Literal["producer_byte_rate", "consumer_byte_rate", "request_percentage"], FiniteFloat | None],
        Field(min_length=1),
    ]

    def of(self) -> dict[str, str | None]:
        return {"user": self.user, "topic": self.topic, "instance": self.instance}

    @property
    def key(self) -> str:
        return key_of(self.user, self.topic, self.instance)


class ClientChanges:
    """Changes by one user, through one gateway."""

    def __init__(self, registry: Platform, by: str, reason: str) -> None:
        self._registry, self._by, self._reason = registry, by, reason

    def create_rules(self, rules: Sequence[Mapping[str, Any]]) -> tuple[list[PlatformError | None], int]:
        """Returns the error of each rule, None if it is in force, and the time of the newest change, or 0.

        :raises RegistryError: nothing was changed.
        """
        _require_few(rules, "rules")
        outcomes: list[PlatformError | None] = [None] * len(rules)
        wanted: dict[str, RuleEntry] = {}
        places: dict[str, list[int]] = {}
        for place, one in enumerate(rules):
            try:
                rule = RuleEntry.read(one)
            except InvalidError as error:
                outcomes[place] = error
                continue
            wanted[rule.key] = rule
            places.setdefault(rule.key, []).append(place)

        def edits() -> list[Edit]:
            return [put(rule) for key, rule in wanted.items() if self._registry.read.find("rules", key) is None]

        def refused(key: str, why: PlatformError) -> None:
            del wanted[key]
            for place in places[key]:
                outcomes[place] = why

        return outcomes, self._applied_but(edits, refused)

    def change_quotas(
        self, changes: Sequence[QuotaLimitsChange], dry_run: bool = False
    ) -> tuple[list[PlatformError | None], int]:
        """Limits that are not named stay. Returns and raises like `create_rules`."""
        _require_few(changes, "quotas")
        outcomes: list[PlatformError | None] = [None] * len(changes)
        wanted: dict[str, int] = {}
        for place, change in enumerate(changes):
            if wanted.setdefault(change.key, place) != place:
                outcomes[place] = InvalidError("the same quota is changed twice in one request: send one change")

        def edits() -> list[Edit]:
            found: list[Edit] = []
            for key, place in list(wanted.items()):
                try:
                    edit = self._edit(changes[place])
                except InvalidError as error:
                    refused(key, error)
                    continue
                if edit is not None:
                    found.append(edit)
            return found

        def refused(key: str, why: PlatformError) -> None:
            outcomes[wanted.pop(key)] = why

        return outcomes, self._applied_but(edits, refused, dry_run)

    def _edit(self, change: QuotaLimitsChange) -> Edit | None:
        """None: nothing to do.

        :raises InvalidError: the quota would be invalid.
        """
        found = self._registry.read.find("quotas", change.key)
        entry = None if found is None else found.entry
        before = {name: getattr(entry, name, None) for name in LIMITS}
        changed: dict[str, float | None] = before | {str(name): value for name, value in change.limits.items()}
        after = {name: value for name, value in changed.items() if value is not None}
        version = None if found is None else found.version
        if after:
            whole = {name: int(value) if value == int(value) else value for name, value in after.items()}
            return put(QuotaEntry.read({**change.of(), **whole}), version)
        return None if found is None else Edit("quotas", change.key, None, version)

    def _applied_but(
        self, edits: Callable[[], list[Edit]], refused: Callable[[str, PlatformError], None], dry_run: bool = False
    ) -> int:
        """Make all edits at once, without those that need a missing entry. Returns the time of the newest change.

        :param edits: returns the edits for the current entries.
        :param refused: called with the key and error of an edit that is dropped; `edits` leaves it out then.
        """
        for _ in range(TRIES):
            tried = edits()
            try:
                return self._applied(tried, dry_run)
            except (StaleVersionError, NotThereError):
                continue
            except InvalidError as error:
                for key, why in _without_needed([one.entry for one in tried if one.entry is not None], error):
                    refused(key, why)
        raise BusyError("others keep changing the same entries: try again")

    def delete_rules(self, filters: Sequence[RuleFilter]) -> tuple[list[list[AccessRule]], int]:
        """Returns the rules that each filter matched, now deleted, and the time of the newest change.

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
        raise BusyError("others keep changing the same rules: try again")

    def _applied(self, edits: Sequence[Edit], dry_run: bool = False) -> int:
        if not edits:
            return 0
        return max(made.changed_us for made in self._registry.apply(edits, self._by, self._reason, dry_run))

    def _described(self, filters: Sequence[RuleFilter]) -> list[list[tuple[StoredEntry, AccessRule]]]:
        left = MAX_LOOKED_AT
        found: list[list[tuple[StoredEntry, AccessRule]]] = []
        for rule_filter in filters:
            described: list[tuple[StoredEntry, AccessRule]] = []
            for stored in self._candidates(rule_filter):
                left -= 1
                if left < 0:
                    raise InvalidError(
                        f"the filters read more than {MAX_LOOKED_AT} rules: name a principal, or send fewer filters"
                    )
                rule = access_rule(stored.entry.model_dump()) if stored.entry is not None else None
                if rule is not None and rule_filter.describes(rule):
                    described.append((stored, rule))
            found.append(described)
        return found

    def _candidates(self, rule_filter: RuleFilter) -> Iterator[StoredEntry]:
        mentioned: dict[str, str] = {}
        kind, _, name = (rule_filter.principal or "").partition(":")
        if kind in ("User", "Group") and name != "*":
            mentioned[kind.lower()] = name
        of_topic = rule_filter.resource_type is ResourceType.TOPIC
        if of_topic and rule_filter.name is not None and not rule_filter.matching:
            mentioned["topic"] = rule_filter.name
        after: str | None = ""
        while after is not None:
            page = self._registry.read.page("rules", after, MAX_PAGE, mentioned)
            yield from page.stored
            after = page.after


def _without_needed(entries: Sequence[Entry], error: InvalidError) -> Iterator[tuple[str, InvalidError]]:
    """Keys of the entries that need a missing one, with an error that names it.

    :raises InvalidError: the error has another cause.
    """
    missing = {(one["role"], one["name"]) for one in error.details.get("missing", ())}
    if not missing:
        raise error
    for entry in entries:
        lacks = [one for one in entry.mentions() if one.needed and (one.role, one.name) in missing]
        if lacks:
            names = ", ".join(f"{one.role} {short(one.name)}" for one in lacks)
            yield entry.key, InvalidError(f"there is no {names} on the platform: register it first")


def _require_few(said: Sequence[object], what: str) -> None:
    if len(said) > MAX_AT_ONCE:
        raise InvalidError(f"{len(said)} {what} in one request, {MAX_AT_ONCE} at most: send fewer at once")
