"""The place of one group for another group, or in another cluster, in the kind of offsets that is used there.
No effects."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from ha_core.model import View
from ha_core.model.extent import physical_place
from ha_core.plan.facts.clusters import Partition

Translate = Callable[[Partition, int], int | str]
"""Partition and physical offset in the first cluster → physical offset in the other, or why it is not known."""


class Place(NamedTuple):
    """A group's offsets in a cluster; `direct`: they are physical offsets."""

    group: str
    cluster: str
    direct: bool


class Carried(NamedTuple):
    """
    :ivar offsets: for the other group.
    :ivar left: partition → why it has no place there.
    """

    offsets: Mapping[Partition, int]
    left: Mapping[Partition, str]


def carried(view: View, here: Place, there: Place, offsets: Mapping[Partition, int], translate: Translate) -> Carried:
    """The offsets of `here` for `there`.

    :param translate: used for direct groups in two clusters.
    """
    found, left = dict[Partition, int](), dict[Partition, str]()
    for key, offset in sorted(offsets.items()):
        place = _place(view, here, there, key, offset, translate)
        if isinstance(place, int):
            found[key] = place
        else:
            left[key] = place
    return Carried(found, left)


def _place(view: View, here: Place, there: Place, key: Partition, offset: int, translate: Translate) -> int | str:
    if here.direct and there.direct:
        return offset if here.cluster == there.cluster else translate(key, offset)
    if here.direct == there.direct:
        return offset  # client offsets are the same everywhere
    if here.direct:
        client = view.client_place(here.cluster, key, offset)
        return f"the topic's map has no record of {here.cluster} at {offset}" if client is None else client
    document = view.mapped(key[0])
    physical = offset if document is None else physical_place(document.extents(key[1]), there.cluster, offset)
    return f"{there.cluster} does not hold the records at client offset {offset}" if physical is None else physical
