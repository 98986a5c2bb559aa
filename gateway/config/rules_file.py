"""Users and access rules of a file, in the terms of `model.access`.

users:
  ops: {super_user: true}
  alice: {groups: [tills]}
rules:
- {principal: "Group:tills", resource_type: topic, name: orders, operation: read, effect: allow}
- {principal: "User:alice", resource_type: group, name: till-, pattern: prefixed, operation: all, effect: allow}

Users without groups and super-user rights need no entry. Defaults: `pattern` is literal, `host` any, the `name` of the
cluster its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.config.section import FaultyDocumentError
from ha_core.model.access import ANYBODY, AccessRule, AccessRuleError, User, access_rule, principal
from ha_core.plan.access.rights import Rights


@dataclass(frozen=True, slots=True)
class RulesFile:
    """:ivar rights: of these users and rules."""

    users: tuple[User, ...]
    rules: frozenset[AccessRule]
    rights: Rights = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rights", Rights(self.users, self.rules))


def parse(document: Mapping[Any, Any]) -> RulesFile:
    """:raises FaultyDocumentError: the file has errors, and none of it is used."""
    faults: list[str] = [f"{key}: no such key here; known keys are users, rules" for key in document.keys() - _SECTIONS]
    users, rules = document.get("users") or {}, document.get("rules") or []
    if not isinstance(users, Mapping):
        raise FaultyDocumentError(["users: write `NAME: {groups: […], super_user: true}` lines"])
    if not isinstance(rules, list):
        raise FaultyDocumentError(["rules: write a list, one `- {principal: …}` each"])
    content = tuple(_users(users, faults)), frozenset(_rules(rules, faults))
    if faults:
        raise FaultyDocumentError(faults)
    return RulesFile(*content)


_SECTIONS = frozenset({"users", "rules"})
_OF_USER = frozenset({"groups", "super_user"})


def _users(users: Mapping[Any, Any], faults: list[str]) -> Iterator[User]:
    for name, fields in users.items():
        where, values = f"users: {name}", {} if fields is None else fields
        if not isinstance(values, Mapping) or values.keys() - _OF_USER:
            faults.append(f"{where}: known keys are groups, super_user")
            continue
        groups, super_user = values.get("groups", []), values.get("super_user", False)
        if not isinstance(super_user, bool):
            faults.append(f"{where}: super_user: {super_user!r}: write true or false")
        elif not isinstance(groups, list):
            faults.append(f"{where}: groups: {groups!r}: write a list of names")
        else:
            try:
                if principal(f"User:{name}" if isinstance(name, str) else name) == ANYBODY:
                    faults.append(f"{where}: not a user; name one")
                    continue
                for group in groups:
                    principal(f"Group:{group}" if isinstance(group, str) else group)
            except AccessRuleError as error:
                faults.append(f"{where}: {error}")
            else:
                yield User(name, frozenset(groups), super_user)


def _rules(rules: list[Any], faults: list[str]) -> Iterator[AccessRule]:
    numbers: dict[AccessRule, int] = {}
    for number, fields in enumerate(rules, 1):
        if not isinstance(fields, Mapping):
            faults.append(f"rules: {number}: {fields!r:.80}: write `- {{principal: …, resource_type: …}}`")
            continue
        try:
            rule = access_rule(fields)
        except AccessRuleError as error:
            faults.append(f"rules: {number}: {error}")
            continue
        if rule in numbers:
            faults.append(f"rules: {number}: the same as rule {numbers[rule]}; leave one of them out")
        numbers[rule] = number
        yield rule
