"""The state of a real MirrorMaker 2: Connect's offsets topic and group in the target of a flow."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from ha_core.flows.errors import FlowError
from ha_core.flows.records import SourceOffset
from ha_core.plan.facts.clusters import Partition

_ANY = b'{"offset":0}'
"""A placeholder value, with which a key alone can be decoded."""


@dataclass(frozen=True)
class ConnectState:
    """
    :ivar source_alias: alias of the flow's source.
    :ivar offsets_topic: topic in the target with `SourceOffset`s (`offset.storage.topic`).
    :ivar group: group in the target that Connect's workers join (`group.id`).
    :ivar connector: the connector's name in the keys of the offsets topic.
    """

    source_alias: str
    offsets_topic: str
    group: str
    connector: str = "MirrorSourceConnector"

    @classmethod
    def dedicated(cls, source_alias: str) -> Self:
        """The names in dedicated mode. They contain dots, whatever the flows' separator is."""
        return cls(source_alias, f"mm2-offsets.{source_alias}.internal", f"{source_alias}-mm2")

    def source_offset(self, partition: Partition, next_offset: int) -> SourceOffset | None:
        """The record that makes a real MirrorMaker 2 go on at `next_offset`; None: it begins at the source's start.

        :param next_offset: source offset below which the target has acknowledged every record that must be copied.
        """
        if next_offset <= 0:
            return None
        return SourceOffset(self.source_alias, *partition, next_offset - 1, self.connector)

    def newest(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> dict[Partition, int]:
        """Partition of the source → offset of its last copied record. The last record of each key counts.

        Records of other connectors are ignored, and so are keys whose bytes differ from Connect's own form, because
        Connect looks keys up by their bytes. A partition is missing if its last record is a tombstone or has a negative
        offset: MirrorMaker 2 then copies it from the start.

        :param records: (key, value) of each record of the offsets topic; records of one key in their order.
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
