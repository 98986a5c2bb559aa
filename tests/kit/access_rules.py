"""A cluster's access rules, for tests that need nothing else of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import SimpleNamespace
from typing import Any, Self

from ha_core.kafka.errors import KafkaAdminError
from ha_core.plan.facts.clusters import TopicAcl


class Rules:
    """The rules of a cluster, with its admin's methods.

    :ivar halt: called between the check whether a rule may be placed, and its request.
    :ivar refusal: answer to every request; None: success.
    """

    def __init__(self, name: str) -> None:
        self.cluster = SimpleNamespace(name=name)
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
        return True
