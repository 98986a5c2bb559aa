"""Translation of groups' offsets by what the copier knows, without a cluster."""

from collections.abc import Mapping
from typing import cast

import pytest

from ha_core.flows.records import OffsetSync
from ha_core.flows.translation import SyncStore, Translated, Translation
from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import CopyCoverage
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.notes import CopyId
from ha_core.mirror_maker.translating import ExactMaps
from ha_core.model import Run

COPY = CopyPartition(CopyId("A->B:1", "A.t", 0), ("mm2-copies.internal", 0), "t")
NO_ADMIN = cast(Admin, None)
"""The newest runs suffice."""


def translated(known: CopyCoverage, offset: int) -> Translation:
    def earlier() -> SyncStore:
        store = SyncStore()
        store.add(OffsetSync("t", 0, 2, 40))
        return store

    coverage: Mapping[CopyId, CopyCoverage] = {COPY.id: known}
    maps = ExactMaps(NO_ADMIN, lambda: coverage, earlier)
    return maps.translate({COPY: [offset]})[COPY.id, offset]


@pytest.mark.parametrize(
    ("offset", "expected"),
    [(0, Translated(1, "exact")), (7, Translated(1, "exact")), (8, Translated(1, "copied-end"))],
)
def test_a_group_of_an_empty_copy_begins_with_the_copys_first_record(offset: int, expected: Translated) -> None:
    """The source has no committed record below offset 7, and the copy has only its copier's marker."""
    assert translated(CopyCoverage(7, True, (), 0, target=1), offset) == expected


def test_a_group_that_passed_aborted_records_at_the_end_is_translated_exactly() -> None:
    known = CopyCoverage(25, True, (Run(10, 0, 5),), target=5)
    assert translated(known, 20) == Translated(5, "exact")
    assert translated(known, 26) == Translated(5, "copied-end")


def test_offset_syncs_translate_only_offsets_below_the_handover() -> None:
    without_records = CopyCoverage(50, True, (), target=70, source_base=50)
    assert translated(without_records, 10) == Translated(41, "sampled")
    assert translated(without_records, 50) == Translated(70, "exact")
    known = CopyCoverage(70, True, (Run(60, 75, 10),), target=85, source_base=50)
    assert translated(known, 60) == Translated(75, "exact")
