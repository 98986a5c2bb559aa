"""The paths by which gateways write changes that clients make with Kafka's tools, in the clients' names."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from ha_core.model.access import AccessRuleError, rule_filter, rule_in_words
from ha_core.platform.client_changes import MAX_AT_ONCE, ClientChanges, QuotaLimitsChange
from ha_core.platform.errors import InvalidError, NotPublishedError, PlatformError
from ha_core.platform.platform import Platform
from ha_core.platform.serving.tokens import Caller
from ha_core.platform.words import Name

_Several = Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MAX_AT_ONCE)]


class _ClientChangeBody(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    user: Name
    """The client's user, who is the author of the change."""


class NewRules(_ClientChangeBody):
    rules: _Several


class RuleFilters(_ClientChangeBody):
    filters: _Several


class QuotaChanges(_ClientChangeBody):
    quotas: Annotated[list[QuotaLimitsChange], Field(min_length=1, max_length=MAX_AT_ONCE)]
    dry_run: bool = False


def add_client_changes(
    router: APIRouter, registry: Platform, caller_of: Callable[..., Caller], publishes_quotas: bool
) -> None:
    """:param caller_of: a dependency that returns the token's owner."""

    def changes(user: str, api: str, caller: Caller) -> ClientChanges:
        return ClientChanges(registry, user, f"{api} of a client, through {caller.name}")

    @router.post("/rules")
    def create(body: NewRules, caller: Annotated[Caller, Depends(caller_of)]) -> dict[str, Any]:
        outcomes, changed_us = changes(body.user, "CREATE_ACLS", caller).create_rules(body.rules)
        return {"results": [_error_json(error) for error in outcomes], "changed_us": changed_us}

    @router.post("/rules/deletions")
    def delete(body: RuleFilters, caller: Annotated[Caller, Depends(caller_of)]) -> dict[str, Any]:
        try:
            filters = [rule_filter(one) for one in body.filters]
        except AccessRuleError as error:
            raise InvalidError(f"filters: {error}") from None
        deleted, changed_us = changes(body.user, "DELETE_ACLS", caller).delete_rules(filters)
        return {"results": [[rule_in_words(rule) for rule in rules] for rules in deleted], "changed_us": changed_us}

    @router.post("/quotas")
    def change(body: QuotaChanges, caller: Annotated[Caller, Depends(caller_of)]) -> dict[str, Any]:
        if not publishes_quotas:
            raise NotPublishedError(
                "this service does not publish quotas, so none would come into force: start it with --zookeeper"
            )
        by = changes(body.user, "ALTER_CLIENT_QUOTAS", caller)
        outcomes, changed_us = by.change_quotas(body.quotas, body.dry_run)
        return {"results": [_error_json(error) for error in outcomes], "changed_us": changed_us}


def _error_json(error: PlatformError | None) -> dict[str, str] | None:
    return None if error is None else {"code": error.code, "message": str(error)}
