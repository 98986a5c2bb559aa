"""Changes of Kafka's clients through gateways, in Kafka's way: single rules and quotas, without versions.

They are idempotent: creating an existing rule succeeds, and so does deleting one that is gone. A client that missed the
answer repeats its request. The valid parts of a request are made in one transaction.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from ha_core.model.access import AccessRule, ResourceType, RuleFilter, access_rule
from ha_core.platform.changing import MAX_EDITS, Edit
from ha_core.platform.entry import Entry
from ha_core.platform.errors import InvalidError, PlatformError
from ha_core.platform.kinds.quotas import QuotaEntry
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.platform import Platform
from ha_core.platform.reading import MAX_PAGE
from ha_core.platform.stored import StoredEntry
from ha_core.platform.wanted import WantedEntry, without_races
from ha_core.platform.words import short

MAX_AT_ONCE = 1000
"""Rules, filters or quotas of one request."""
MAX_LOOKED_AT = 50_000
"""Rules that one request's filters may read: some seconds."""
Outcomes = tuple[list[PlatformError | None], int]
"""The error of each change, None if it is in force, and the time of the newest change, or 0."""


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

    def wanted(self) -> WantedEntry:
        limits = {str(name): value for name, value in self.limits.items()}
        return WantedEntry(QuotaEntry, {**self.model_dump(exclude={"limits"}), **limits})


class ClientChanges:
    """Changes by one user, through one gateway."""

    def __init__(self, registry: Platform, by: str, reason: str) -> None:
        self._registry, self._by, self._reason = registry, by, reason

    def create_rules(self, rules: Sequence[Mapping[str, Any]]) -> Outcomes:
        """:raises PlatformError: nothing was changed."""
        _require_few(rules, "rules")
        return self._made([WantedEntry(RuleEntry, rule) for rule in rules])

    def change_quotas(self, changes: Sequence[QuotaLimitsChange], dry_run: bool = False) -> Outcomes:
        """Limits that are not named stay.

        :raises PlatformError: nothing was changed.
        """
        _require_few(changes, "quotas")
        return self._made([change.wanted() for change in changes], dry_run)

    def _made(self, wanted: Sequence[WantedEntry], dry_run: bool = False) -> Outcomes:
        """Make all changes at once, without invalid ones and those that need a missing entry."""
        outcomes: list[PlatformError | None] = [None] * len(wanted)
        places: dict[str, list[int]] = {}
        """By key, the changes that are still to be made; equal ones are made once."""
        for place, entry in enumerate(wanted):
            try:
                same = places.setdefault(entry.key, [])
            except InvalidError as error:
                outcomes[place] = error
                continue
            if same and entry.contradicts(wanted[same[0]]):
                outcomes[place] = InvalidError("the same entry is changed twice in one request: send one change")
            else:
                same.append(place)

        def refuse(key: str, why: PlatformError) -> None:
            for place in places.pop(key):
                outcomes[place] = why

        def attempt() -> int:
            edits: list[Edit] = []
            for key, (place, *_) in list(places.items()):
                try:
                    edit = wanted[place].edit(self._registry.read)
                except InvalidError as error:
                    refuse(key, error)
                else:
                    edits += [] if edit is None else [edit]
            try:
                return self._applied(edits, dry_run)
            except InvalidError as error:
                for key, why in _without_needed([one.entry for one in edits if one.entry is not None], error):
                    refuse(key, why)
            return attempt()

        return outcomes, without_races(attempt)

    def delete_rules(self, filters: Sequence[RuleFilter]) -> tuple[list[list[AccessRule]], int]:
        """Returns the rules that each filter matched, now deleted, and the time of the newest change.

        :raises PlatformError: nothing was changed.
        """
        _require_few(filters, "filters")

        def attempt() -> tuple[list[list[AccessRule]], int]:
            found = self._described(filters)
            versions = {entry.key: entry.version for described in found for entry, _ in described}
            if len(versions) > MAX_EDITS:
                raise InvalidError(f"{len(versions)} rules would be deleted, {MAX_EDITS} at most: name fewer at once")
            made_us = self._applied([Edit("rules", key, None, version) for key, version in versions.items()])
            return [[rule for _, rule in described] for described in found], made_us

        return without_races(attempt)

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
        lacks = [
            reference
            for reference in entry.mentions()
            if reference.needed and (reference.role, reference.name) in missing
        ]
        if lacks:
            names = ", ".join(f"{reference.role} {short(reference.name)}" for reference in lacks)
            yield entry.key, InvalidError(f"there is no {names} on the platform: register it first")


def _require_few(rules: Sequence[object], what: str) -> None:
    if len(rules) > MAX_AT_ONCE:
        raise InvalidError(f"{len(rules)} {what} in one request, {MAX_AT_ONCE} at most: send fewer at once")
