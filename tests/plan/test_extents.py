"""Extents against a brute-force model: a dictionary of every client offset that was ever acknowledged."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ha_core.model import Extent, Topic
from ha_core.model.extent import Hole, Location, append, check, close, identity, locate, open_extent
from tests.plan.maps import cut, pruned

CLUSTERS = ("a", "b", "c")
clusters = st.sampled_from(CLUSTERS)


class PartitionLife(RuleBasedStateMachine):
    """One partition that wanders between clusters: planned, forced, with foreign entries, pruned and closed."""

    @initialize(first=clusters)
    def begin(self, first: str) -> None:
        self.extents = identity(first)
        self.ends = dict.fromkeys(CLUSTERS, 0)
        self.log_starts = dict.fromkeys(CLUSTERS, 0)
        self.acknowledged: dict[int, tuple[str, int]] = {}
        self.writer_epochs = [0]
        self.unclosed: dict[str, int] = {}
        """Clusters that were left by a forced move → their true end."""

    @rule(count=st.integers(1, 5))
    def write(self, count: int) -> None:
        extent = open_extent(self.extents)
        for _ in range(count):
            physical = self.ends[extent.cluster]
            offset = extent.to_client(physical)
            assert offset not in self.acknowledged, "a client offset was given twice"
            self.acknowledged[offset] = (extent.cluster, physical)
            self.ends[extent.cluster] += 1

    @rule(onto=clusters, foreign=st.integers(0, 3))
    def move(self, onto: str, foreign: int) -> None:
        origin = open_extent(self.extents).cluster
        if onto == origin:
            return
        self.ends[onto] += foreign
        self.extents = cut(self.extents, self.ends[origin], onto, self.ends[onto])
        self.writer_epochs.append(open_extent(self.extents).writer_epoch)
        self.unclosed.pop(onto, None)

    @rule(onto=clusters, reserve=st.integers(0, 50))
    def force(self, onto: str, reserve: int) -> None:
        current = open_extent(self.extents)
        if onto == current.cluster:
            return
        at = current.to_client(self.ends[current.cluster]) + reserve
        self.extents = append(self.extents, onto, at, self.ends[onto])
        self.writer_epochs.append(open_extent(self.extents).writer_epoch)
        self.unclosed.pop(onto, None)
        if any(
            extent.writer_epoch == current.writer_epoch for extent in self.extents
        ):  # an empty stay leaves no extent to be closed
            self.unclosed[current.cluster] = self.ends[current.cluster]

    @precondition(lambda self: self.unclosed)
    @rule(data=st.data())
    def come_back(self, data: st.DataObject) -> None:
        cluster = data.draw(st.sampled_from(sorted(self.unclosed)))
        newest = [e for e in self.extents if e.cluster == cluster][-1]
        true_end = self.unclosed.pop(cluster)
        if true_end >= newest.base:
            self.extents = close(self.extents, cluster, newest.to_client(true_end))

    @rule(cluster=clusters, share=st.floats(0, 1))
    def age(self, cluster: str, share: float) -> None:
        start = max(self.log_starts[cluster], int(self.ends[cluster] * share))
        self.log_starts[cluster] = start
        self.extents = pruned(self.extents, self.log_starts)
        self.acknowledged = {
            offset: (where, physical)
            for offset, (where, physical) in self.acknowledged.items()
            if where != cluster or physical >= start
        }
        if not any(extent.cluster == cluster for extent in self.extents):
            self.unclosed.pop(cluster, None)

    @invariant()
    def nothing_is_wrong(self) -> None:
        if hasattr(self, "extents"):
            assert check(self.extents) == []

    @invariant()
    def every_acknowledged_offset_is_found_where_it_was_written(self) -> None:
        for offset, (cluster, physical) in getattr(self, "acknowledged", {}).items():
            place = locate(self.extents, offset)
            assert isinstance(place, Location)
            assert (place.extent.cluster, place.physical) == (cluster, physical)
            assert place.extent.to_client(place.physical) == offset

    @invariant()
    def no_offset_below_the_end_leads_to_a_record_of_another_offset(self) -> None:
        if not hasattr(self, "extents"):
            return
        owners = {where: offset for offset, where in self.acknowledged.items()}
        current = open_extent(self.extents)
        for offset in range(current.to_client(self.ends[current.cluster])):
            place = locate(self.extents, offset)
            if isinstance(place, Location):
                assert owners.get((place.extent.cluster, place.physical), offset) == offset
            else:
                assert place.extent.start > offset
                assert not any(offset <= known < place.extent.start for known in self.acknowledged)

    @invariant()
    def writer_epochs_count_every_cut(self) -> None:
        assert getattr(self, "writer_epochs", [0]) == list(range(len(getattr(self, "writer_epochs", [0]))))


TestPartitionLife = PartitionLife.TestCase
TestPartitionLife.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def test_a_reader_in_an_ignored_extent_continues_at_the_next_readable_one() -> None:
    # Given two ignored extents between readable ones
    skipped = (
        Extent(cluster="a", start=0, end=10, base=0, writer_epoch=0),
        Extent(cluster="b", start=10, end=20, base=0, writer_epoch=1, ignored=True),
        Extent(cluster="c", start=20, end=30, base=0, writer_epoch=2, ignored=True),
        Extent(cluster="a", start=30, end=None, base=10, writer_epoch=3),
    )
    # When offsets are looked up
    # Then those of the ignored ones lead to the next readable one
    assert locate(skipped, 9) == Location(skipped[0], 9)
    assert locate(skipped, 10) == Hole(skipped[3])
    assert locate(skipped, 29) == Hole(skipped[3])


def test_a_partition_missing_from_the_map_belongs_to_the_writer() -> None:
    topic = Topic(name="t", writer="b", partitions={0: cut(identity("a"), 10, "b", 3)})

    assert topic.extents(0) == topic.partitions[0]
    assert topic.extents(1) == (Extent(cluster="b", start=0, end=None, base=0, writer_epoch=0),)


def test_a_topic_without_a_map_has_no_extents() -> None:
    with pytest.raises(ValueError, match="topic t has no map"):
        Topic(name="t").extents(0)


@pytest.mark.parametrize(
    ("extents", "words"),
    [
        ((), "no cluster accepts produce"),
        ((("a", 0, 10, 0, 0),), "no cluster accepts produce"),
        ((("a", 0, None, 0, 0), ("b", 10, None, 0, 1)), "two clusters would accept produce"),
        ((("a", 0, 10, 0, 0), ("b", 9, None, 0, 1)), "inside the one before"),
        ((("a", 5, None, 0, 0), ("b", 5, None, 0, 1)), "inside the one before"),
        ((("a", 0, 0, 0, 0), ("b", 0, None, 0, 1)), "is empty"),
        ((("a", 0, 10, 0, 0), ("b", 10, None, 0, 0)), "has writer epoch 0"),
        ((("a", 0, 10, 0, 0), ("b", 10, 20, 0, 1), ("a", 20, None, 9, 2)), "an older one there ends at 10"),
        ((("a", 0, 10, 50, 0), ("b", 10, 20, 0, 1), ("a", 20, None, 9, 2)), "an older one there ends at 60"),
    ],
)
def test_every_kind_of_damaged_extents_is_named(
    extents: tuple[tuple[str, int, int | None, int, int], ...], words: str
) -> None:
    damaged = tuple(Extent(cluster=c, start=s, end=e, base=b, writer_epoch=t) for c, s, e, b, t in extents)

    assert any(words in problem for problem in check(damaged))


def test_ignoring_the_open_extent_is_damage() -> None:
    damaged = (Extent(cluster="a", start=0, end=None, base=0, writer_epoch=0, ignored=True),)

    assert "is ignored" in check(damaged)[0]


def test_a_cut_or_close_that_would_break_the_order_of_extents_is_refused() -> None:
    moved = cut(identity("a"), 100, "b", 0)

    with pytest.raises(ValueError, match="b is the writer already"):
        cut(moved, 0, "b", 0)
    with pytest.raises(ValueError, match="the cut 99 is below 100"):
        append(moved, "a", 99, 100)
    with pytest.raises(ValueError, match="the most that can be counted"):
        append((Extent(cluster="a", start=0, end=None, base=0, writer_epoch=(1 << 17) - 1),), "b", 0, 0)
    with pytest.raises(ValueError, match="outside its extent"):
        cut((Extent(cluster="b", start=100, end=None, base=7, writer_epoch=1),), 6, "a", 100)
    with pytest.raises(ValueError, match="no open extent"):
        open_extent(moved[:1])
    with pytest.raises(ValueError, match="no closed extent"):
        close(moved, "b", 3)
    with pytest.raises(ValueError, match="outside its extent"):
        close(moved, "a", 101)


@given(st.integers(max_value=-1))
def test_special_offsets_are_not_looked_up(offset: int) -> None:
    with pytest.raises(ValueError, match="no client offset"):
        locate(identity("a"), offset)
