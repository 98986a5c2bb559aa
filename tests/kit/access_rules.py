"""A cluster's access rules, for tests that need nothing else of it."""

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, Self

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model.access import ANYBODY
from ha_core.plan.facts.clusters import TopicAcl
from ha_core.wire.sasl import SecurityProfile


class Rules:
    """The rules of a cluster, with its admin's methods.

    :ivar account: principal of the account that asks; empty: a super user.
    :ivar security: its security profile, which may name another principal.
    :ivar halt: called between the check whether a rule may be placed, and its request.
    :ivar refusal: answer to every request; None: success.
    """

    def __init__(self, name: str, account: str = "", named: str = "") -> None:
        self.cluster = SimpleNamespace(name=name, security="sasl")
        self.account = account
        self.security = SecurityProfile(principal=named)
        self.there = set[TopicAcl]()
        self.halt: dict[TopicAcl, Callable[[], None]] = {}
        self.refusal: KafkaAdminError | None = None
        self.looks = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def access_rules(self, _timeout_s: float | None = None) -> frozenset[TopicAcl]:
        self.looks += 1
        if self.refusal is not None:
            raise self.refusal
        return frozenset(self.there)

    def add_access_rules(self, rules: Collection[TopicAcl], still_ours: Callable[[], None]) -> None:
        still_ours()
        for rule in rules:
            self.halt.pop(rule, lambda: None)()
        self.there |= {*rules}

    def remove_access_rules(self, rules: Collection[TopicAcl], still_ours: Callable[[], None], _: Any = None) -> None:
        still_ours()
        self.there -= {*rules}

    def await_access_rules(self, **_: Any) -> None:
        pass

    def bypasses_rules(self) -> bool:
        return not self.account

    def writable(self, topics: Collection[str]) -> frozenset[str]:
        ours = {(rule.name, rule.allows) for rule in self.there if rule.principal in (self.account, ANYBODY)}
        return frozenset(topic for topic in topics if (topic, True) in ours and (topic, False) not in ours)
