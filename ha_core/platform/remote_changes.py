"""What clients change through a gateway, written to the platform over HTTP."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx

from ha_core.model.access import AccessRule, access_rule, rule_in_words
from ha_core.model.access_filter import RuleFilter, filter_in_words
from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.platform.errors import PlatformAwayError, PlatformRefusedError
from ha_core.platform.remote import answered, parsed, unexpected

REFUSALS = frozenset({409, 413, 422})
"""Statuses that say that the platform will not, whenever it is asked."""


class Made(NamedTuple):
    """
    :ivar refused: of each thing why it was refused; None: it stands.
    :ivar changed_us: the time of the newest change; 0: all stood before.
    """

    refused: tuple[str | None, ...]
    changed_us: int


class Deleted(NamedTuple):
    """:ivar rules: that each filter has described."""

    rules: tuple[tuple[AccessRule, ...], ...]
    changed_us: int


class HttpChanges:
    """In the name of one user.

    :raises PlatformAwayError: by all methods: the platform does not answer, or not as it should. Whether it has made
        the change is not known; made once more it is the same.
    :raises RefusedError: by all methods: nothing was changed, and the platform says why.
    """

    def __init__(self, client: httpx.Client, user: str) -> None:
        self._client, self._user = client, user

    def create_rules(self, rules: Sequence[AccessRule]) -> Made:
        said = self._posted("rules", {"rules": [rule_in_words(rule) for rule in rules]})
        return parsed(self._client, said, lambda found: _made(found, len(rules)))

    def delete_rules(self, filters: Sequence[RuleFilter]) -> Deleted:
        said = self._posted("rules/deletions", {"filters": [filter_in_words(one) for one in filters]})
        return parsed(self._client, said, lambda found: _deleted(found, len(filters)))

    def change_quotas(
        self, changes: Sequence[tuple[QuotaEntity, Mapping[QuotaKind, float | None]]], dry_run: bool = False
    ) -> Made:
        quotas = [
            {**entity._asdict(), "limits": {kind.value: value for kind, value in change.items()}}
            for entity, change in changes
        ]
        said = self._posted("quotas", {"quotas": quotas, "dry_run": dry_run})
        return parsed(self._client, said, lambda found: _made(found, len(changes)))

    def _posted(self, path: str, said: dict[str, Any]) -> bytes:
        status, body = answered(self._client, "POST", path, json={"user": self._user, **said})
        if status in REFUSALS:
            raise PlatformRefusedError(parsed(self._client, body, _message))
        if status == httpx.codes.SERVICE_UNAVAILABLE:
            raise PlatformAwayError(f"the platform at {self._client.base_url}: {parsed(self._client, body, _message)}")
        if status != httpx.codes.OK:
            raise unexpected(self._client, path, status)
        return body


def _message(found: Any) -> str:
    return str(found["error"]["message"])


def _made(found: Any, count: int) -> Made:
    refused = tuple(None if one is None else str(one["message"]) for one in found["results"])
    if len(refused) != count:
        raise ValueError(found)
    return Made(refused, int(found["changed_us"]))


def _deleted(found: Any, count: int) -> Deleted:
    rules = tuple(tuple(access_rule(rule) for rule in of_filter) for of_filter in found["results"])
    if len(rules) != count:
        raise ValueError(found)
    return Deleted(rules, int(found["changed_us"]))
