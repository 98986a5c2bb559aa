"""Where a real MirrorMaker 2 keeps how far it has copied: Connect's topics and group in the target of a flow."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from ha_core.flows.errors import FlowError
from ha_core.flows.records import SourceOffset
from ha_core.plan.facts.clusters import Partition

_ANY = b'{"offset":0}'
"""A value by which a key can be read alone."""


@dataclass(frozen=True)
class ConnectState:
    """
    :ivar source_alias: alias of the flow's source.
    :ivar offsets_topic: topic of the target with `SourceOffset`s (`offset.storage.topic`).
    :ivar group: group of the target that the workers join (`group.id`).
    :ivar connector: name of the connector in the keys of that topic.
    """

    source_alias: str
    offsets_topic: str
    group: str
    connector: str = "MirrorSourceConnector"

    @classmethod
    def dedicated(cls, source_alias: str) -> Self:
        """Names of a MirrorMaker 2 in dedicated mode. They have dots, whatever the flows' separator is."""
        return cls(source_alias, f"mm2-offsets.{source_alias}.internal", f"{source_alias}-mm2")

    def source_offset(self, partition: Partition, next_offset: int) -> SourceOffset | None:
        """The record by which a real MirrorMaker 2 goes on at `next_offset`; None: it begins at the source's start.

        :param next_offset: source offset below which the target has acknowledged everything that is to be copied.
        """
        if next_offset <= 0:
            return None
        return SourceOffset(self.source_alias, *partition, next_offset - 1, self.connector)

    def newest(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[Partition, int]:
        """Partition of the source → offset of its last copied record, by the last record of each key.

        Records of other connectors are left out, and of keys that Connect does not write like this: it looks keys up by
        their bytes. A partition is missing after a tombstone, or if its offset is negative: its copy begins anew.

        :param records: (key, value) of the offsets topic; those of one key in their order.
        :raises FlowError: the offset of a partition cannot be read.
        """
        found: dict[Partition, int] = {}
        for key, value in records:
            try:
                place = SourceOffset.decode(key, _ANY)
            except FlowError:
                continue
            if (place.cluster, place.connector, place.key) != (self.source_alias, self.connector, key):
                continue
            partition = place.topic, place.partition
            found.pop(partition, None)
            offset = -1 if value is None else SourceOffset.decode(key, value).offset
            if offset >= 0:
                found[partition] = offset
        return found
