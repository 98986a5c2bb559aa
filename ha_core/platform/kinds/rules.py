"""Access rules, with the terms and the meaning of Kafka's ACLs."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from ha_core.model.access import CLUSTER_NAME
from ha_core.platform import words
from ha_core.platform.entry import Entry, Reference

_OF_CLUSTER = frozenset({"cluster_action", "idempotent_write"})
_OF_DATA = frozenset({"read", "write"})


def _principal(text: str) -> str:
    kind, _, name = text.partition(":")
    if kind not in {"User", "Group"} or not name or len(name) > words.MAX_NAME:
        raise ValueError(f"{words.short(text)} is no principal; write User:NAME, Group:NAME, or User:* for every user")
    if name == words.EVERYBODY:
        if kind == "Group":
            raise ValueError("no group has all users; write User:*")
        return text
    words.user_name(name)
    return text


def _host(text: str) -> str:
    return text if text == words.EVERYBODY else words.address(text)


class RuleEntry(Entry):
    """All fields identify a rule: it is created and deleted, never changed."""

    KIND = "rules"
    KEY = ("principal", "resource_type", "name", "pattern", "operation", "effect", "host")

    principal: Annotated[str, AfterValidator(_principal)]
    resource_type: Literal["topic", "group", "transactional_id", "cluster"]
    name: Annotated[str, Field(min_length=1, max_length=words.MAX_NAME)] = CLUSTER_NAME
    """Name of the resource; a literal `*` for all; or a prefix."""
    pattern: Literal["literal", "prefixed"] = "literal"
    operation: Literal[
        "all",
        "read",
        "write",
        "create",
        "delete",
        "alter",
        "describe",
        "cluster_action",
        "describe_configs",
        "alter_configs",
        "idempotent_write",
    ]
    effect: Literal["allow", "deny"] = "allow"
    host: Annotated[str, AfterValidator(_host)] = words.EVERYBODY
    """The client's address."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.resource_type == "cluster":
            if self.name != CLUSTER_NAME or self.pattern != "literal":
                raise ValueError(f"the only resource of type cluster is {CLUSTER_NAME}, literally; leave name out")
            if self.operation in _OF_DATA:
                raise ValueError(f"a cluster has no operation {self.operation}; name a topic or a group")
            return self
        if "name" not in self.model_fields_set:
            raise ValueError(f"name is missing: give a {self.resource_type}, or * for all")
        if self.operation in _OF_CLUSTER:
            raise ValueError(f"{self.operation} is an operation of the cluster only")
        if self.name == words.EVERYBODY:
            if self.pattern == "prefixed":
                raise ValueError("no name begins with *; for all names write * with the pattern literal")
        elif self.resource_type == "topic":
            # A prefix need not be a valid name: `.` is the prefix of `.orders`.
            words.topic_name(self.name if self.pattern == "literal" else f"{self.name}x")
        else:
            words.plain(self.name)
        return self

    def mentions(self) -> Iterator[Reference]:
        kind, _, name = self.principal.partition(":")
        if name != words.EVERYBODY:
            yield Reference(kind.lower(), name, needed=True)
        if self.resource_type == "topic":
            yield Reference("topic", self.name)
