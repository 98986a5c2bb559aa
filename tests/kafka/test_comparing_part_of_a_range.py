"""A range of which only a bounded number of bytes is compared, without clusters."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import cast

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.verifying import compare
from ha_core.mirror.comparing import CopyMap, ranges
from ha_core.mirror.key_states import NEITHER, Compacted
from ha_core.mirror.progress import Copied, Progress, Writer
from ha_core.mirror.split import Record
from tests.mirror.batches import MS
from tests.mirror.logs import Held, single

COUNT = 100


@dataclass
class Cluster:
    """A cluster with one partition, which is read from the start."""

    held: Held

    def log(self, *_: object, **__: object) -> Held:
        return self.held

    def ends(self, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], SimpleNamespace]:
        return dict.fromkeys(partitions, SimpleNamespace(last_stable=COUNT, high_watermark=COUNT))


@pytest.mark.parametrize("compacted", [NEITHER, Compacted(True, True)])
def test_a_range_is_cut_short_at_the_byte_limit_and_reports_its_compared_part(compacted: Compacted) -> None:
    # Given a copy that is equal, of a hundred batches
    log = single([Record.of(n, MS + n, b"k%d" % n, b"value %03d" % n) for n in range(COUNT)])
    source, target = cast(Admin, Cluster(log)), cast(Admin, Cluster(log))
    progress = Progress(Writer(900, 3), 0, 0).with_batches([Copied(0, COUNT)])
    (span,) = ranges(CopyMap.of(progress), 0, COUNT, 1 << 40)
    size = sum(map(len, log.data)) // COUNT
    # When it may read as much as ten of them take, in both logs
    comparison = compare(source, target, ("orders", 0), span, compacted, most_bytes=20 * size)
    # Then that many are compared, and the rest is not judged
    assert (comparison.first, comparison.cut_short) == (None, True)
    assert 8 <= comparison.compared <= 12
    # And all of them with a higher limit, or without one
    for most in (None, 10 * COUNT * size):
        whole = compare(source, target, ("orders", 0), span, compacted, most_bytes=most)
        assert (whole.compared, whole.cut_short, whole.first) == (COUNT, False, None)
