"""Filters of an operator's own, in place of lists of patterns.

`topic.filter.class`, `group.filter.class` and `config.property.filter.class` name one: a class that its package
registers as an entry point in the group `switchyard.flow_filters`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ha_core.flows.errors import FlowError


class FilterClass(Protocol):
    """A filter gives the same answer for a name each time: answers are kept."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        """:param keys: keys of the flow about this filter, as `topics` and `topic.filter.…`."""

    def accepts(self, name: str) -> bool:
        """Whether the flow copies this topic, this group's offsets or this setting."""


@dataclass(frozen=True)
class OwnFilter:
    """Two are equal if their classes and keys are."""

    name: str
    build: type[FilterClass]
    keys: tuple[tuple[str, str], ...] = ()
    _filter: FilterClass = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """:raises FlowError: the class refuses the keys."""
        try:
            object.__setattr__(self, "_filter", self.build(dict(self.keys)))
        except Exception as error:  # a class of the operator's may fail in any way
            raise FlowError(f"the filter {self.name} cannot be made: {error}") from error

    def __reduce__(self) -> tuple[type["OwnFilter"], tuple[str, type[FilterClass], tuple[tuple[str, str], ...]]]:
        return OwnFilter, (self.name, self.build, self.keys)  # Spark sends flows to its executors

    def accepts(self, name: str) -> bool:
        """:raises FlowError: the filter fails."""
        try:
            return bool(self._filter.accepts(name))
        except Exception as error:
            raise FlowError(f"the filter {self.name} fails for {name!r}: {error}") from error
