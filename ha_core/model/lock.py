"""Locks of operations on the things that they work on."""

from __future__ import annotations

from typing import ClassVar
from urllib.parse import quote

from ha_core.model.document import Document


class Lock(Document):
    """`/locks/{scope key}`: the operation that works on it.

    Keys: `topic:NAME`, `group:NAME`, `user:NAME`, `cluster:NAME`, `pattern:KEY`.
    """

    FOLDER = "/locks"
    KEY = "key"
    UNREADABLE: ClassVar[str] = "(unreadable)"
    """In place of the operation, if this version cannot read the document."""

    key: str
    operation: str
    by: str
    since: str

    @classmethod
    def unreadable(cls, key: str) -> Lock:
        """One whose document this version cannot read."""
        return cls(key=key, operation=cls.UNREADABLE, by="unknown", since="unknown")

    @property
    def readable(self) -> bool:
        return self.operation != self.UNREADABLE

    @property
    def way_out_if_unreadable(self) -> str:
        """No command of this version ends an operation that its lock does not name."""
        return (
            "End the operation with the version of Switchyard that wrote the lock. If no operation runs, remove the "
            f"lock with ZooKeeper's `zkCli.sh delete ROOT{self.FOLDER}/{quote(self.key, safe='')}` (ROOT as in --root)."
        )
