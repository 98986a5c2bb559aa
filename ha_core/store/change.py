"""A change of the state: what one revision does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ha_core.model import Document, Operation
from ha_core.store.paths import CHANGED_KINDS, name_of

Key = tuple[type[Document], str]
"""Kind and name of a document."""


@dataclass(frozen=True)
class Change:
    """Documents to put and delete together, and the versions that the decision was based on.

    :ivar puts: documents of the state, each at most once.
    :ivar deletes: (kind, name); operations cannot be deleted, their history stays.
    :ivar expected: the version read of every put and delete, None for "must not exist". Further entries are guards:
        documents that the decision was based on, and that must not have changed either.
    :ivar change_id: unique; by it a change whose reply was lost is recognised, also by a later process.
    :ivar operation: the operation on whose behalf the change is made, with the `epoch` that its executor holds:
        an executor that was taken over is refused. Both or neither.
    :ivar step: the operation's step, for the change note.
    """

    change_id: str
    puts: tuple[Document, ...] = ()
    deletes: tuple[Key, ...] = ()
    expected: Mapping[Key, int | None] = field(default_factory=dict)
    operation: str | None = None
    epoch: int | None = None
    step: str = ""

    def __post_init__(self) -> None:
        if not self.change_id:
            raise ValueError("a change needs a change_id: without it a lost reply cannot be recognised")
        if (self.operation is None) != (self.epoch is None):
            raise ValueError(f"change {self.change_id}: operation and epoch go together, or it would not be fenced")
        written = self.written
        for kind, name in written:
            if kind not in CHANGED_KINDS:
                raise ValueError(f"change {self.change_id}: {kind.__name__} {name} is not part of the state")
            if (kind, name) not in self.expected:
                raise ValueError(f"change {self.change_id}: no expected version of {kind.__name__} {name}")
        if len(set(written)) != len(written):
            raise ValueError(f"change {self.change_id}: a document is written twice")
        for kind, name in self.deletes:
            if kind is Operation:
                raise ValueError(f"change {self.change_id}: operation {name} cannot be deleted, its history stays")
            if self.expected[kind, name] is None:
                raise ValueError(f"change {self.change_id}: {kind.__name__} {name} must exist to be deleted")

    @property
    def written(self) -> tuple[Key, ...]:
        """Keys of all puts, then of all deletes."""
        return (*((type(document), name_of(document)) for document in self.puts), *self.deletes)
