"""Changes of clients through a gateway, written to the platform over HTTP."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import httpx

from ha_core.model.access import AccessRule, RuleFilter, access_rule, filter_in_words, rule_in_words
from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.platform.errors import PlatformAwayError, PlatformRefusedError
from ha_core.platform.remote import answered, parsed, unexpected

REFUSALS = frozenset({409, 413, 422})
"""Statuses of requests that a retry cannot help."""


class Made(NamedTuple):
    """
    :ivar refused: the error of each rule or quota; None: it is in force.
    :ivar changed_us: the time of the newest change; 0: nothing was changed.
    """

    refused: tuple[str | None, ...]
    changed_us: int


class Deleted(NamedTuple):
    """:ivar rules: the deleted rules of each filter."""

    rules: tuple[tuple[AccessRule, ...], ...]
    changed_us: int


class HttpChanges:
    """Changes in the name of one user.

    :raises PlatformAwayError: from all methods: the platform does not answer correctly. The change may have been made;
        repeating it is safe.
    :raises RefusedError: from all methods: nothing was changed; the text has the platform's reason.
    """

    def __init__(self, client: httpx.Client, user: str) -> None:
        self._client, self._user = client, user

    def create_rules(self, rules: Sequence[AccessRule]) -> Made:
        body = self._posted("rules", {"rules": [rule_in_words(rule) for rule in rules]})
        return parsed(self._client, body, lambda found: _made(found, len(rules)))

    def delete_rules(self, filters: Sequence[RuleFilter]) -> Deleted:
        body = self._posted("rules/deletions", {"filters": [filter_in_words(rule_filter) for rule_filter in filters]})
        return parsed(self._client, body, lambda found: _deleted(found, len(filters)))

    def change_quotas(
        self, changes: Sequence[tuple[QuotaEntity, Mapping[QuotaKind, float | None]]], dry_run: bool = False
    ) -> Made:
        quotas = [
            {**entity._asdict(), "limits": {kind.value: value for kind, value in change.items()}}
            for entity, change in changes
        ]
        body = self._posted("quotas", {"quotas": quotas, "dry_run": dry_run})
        return parsed(self._client, body, lambda found: _made(found, len(changes)))

    def _posted(self, path: str, fields: dict[str, Any]) -> bytes:
        status, body = answered(self._client, "POST", path, json={"user": self._user, **fields})
        if status in REFUSALS:
            raise PlatformRefusedError(parsed(self._client, body, _message))
        if status == httpx.codes.SERVICE_UNAVAILABLE:
            raise PlatformAwayError(f"the platform at {self._client.base_url}: {parsed(self._client, body, _message)}")
        if status != httpx.codes.OK:
            raise unexpected(self._client, path, status)
        return body


def _message(body: Any) -> str:
    return str(body["error"]["message"])


def _made(body: Any, count: int) -> Made:
    refused = tuple(None if result is None else str(result["message"]) for result in body["results"])
    if len(refused) != count:
        raise ValueError(body)
    return Made(refused, int(body["changed_us"]))


def _deleted(body: Any, count: int) -> Deleted:
    rules = tuple(tuple(access_rule(rule) for rule in of_filter) for of_filter in body["results"])
    if len(rules) != count:
        raise ValueError(body)
    return Deleted(rules, int(body["changed_us"]))
