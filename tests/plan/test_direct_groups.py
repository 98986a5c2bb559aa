"""Direct groups: which groups they are, and how their offsets relate to client offsets."""

import pytest

from ha_core.model import DirectGroups, Extent, Group, Mirror, Topic, Usage, Use, UserBindings, View
from ha_core.model.extent import Extents, client_place, physical_place
from ha_core.plan.access.carrying_groups import Place, carried
from ha_core.plan.access.direct_groups import Conflict, conflicts, other_numbers
from ha_core.plan.facts.clusters import Partition

P: Partition = ("orders", 0)
SWITCHED: Extents = (
    Extent(cluster="west", start=0, end=40, base=1, writer_epoch=0, copied=True),
    Extent(cluster="west", start=42, end=50, base=41, writer_epoch=0, copied=True),
    Extent(cluster="west", start=1_000, end=None, base=52, writer_epoch=1),
)
"""A copy that has become the writer, with markers at its offsets 0, 49 to 51, and a hole of two in the source."""
MOVED: Extents = (
    Extent(cluster="east", start=0, end=100, base=0, writer_epoch=0),
    Extent(cluster="west", start=100, end=None, base=7, writer_epoch=1),
)


def view(extents: Extents = SWITCHED, *direct: str) -> View:
    topic = Topic(name="orders", writer="west", partitions={0: extents})
    patterns = {pattern: DirectGroups(pattern=pattern, since="t", by="me") for pattern in direct}
    return View(topics={"orders": topic}, direct_groups=patterns)


@pytest.mark.parametrize(
    ("physical", "client"), [(0, 0), (1, 0), (40, 39), (41, 42), (48, 49), (49, 1_000), (51, 1_000), (60, 1_008)]
)
def test_a_physical_offset_has_the_client_offset_of_the_next_record(physical: int, client: int) -> None:
    assert client_place(SWITCHED, "west", physical) == client


def test_an_offset_above_a_clusters_extents_has_no_client_offset() -> None:
    assert client_place(MOVED, "east", 99) == 99
    assert client_place(MOVED, "east", 100) is None
    assert client_place(SWITCHED, "east", 0) is None


@pytest.mark.parametrize(
    ("client", "physical"), [(0, 1), (39, 40), (40, 41), (42, 41), (50, 52), (999, 52), (1_008, 60)]
)
def test_a_client_offset_has_the_physical_offset_of_the_next_record(client: int, physical: int) -> None:
    assert physical_place(SWITCHED, "west", client) == physical


def test_a_record_in_another_cluster_has_no_physical_offset() -> None:
    assert physical_place(MOVED, "west", 99) is None
    assert physical_place(MOVED, "west", 100) == 7


def test_groups_are_direct_by_name_or_by_pattern() -> None:
    state = view(SWITCHED, "report-*", "etl")
    named = {name: state.direct(name) for name in ("report-1", "etl", "etl-2", "till")}
    assert named == {"report-1": "report-*", "etl": "etl", "etl-2": None, "till": None}


def test_a_direct_group_that_gateways_know_is_a_conflict() -> None:
    use = (Use(how="commit", since="2026-01-01T00:00:00Z"),)
    state = View(
        bindings={"ann": UserBindings(user="ann", groups={"report-bound": "west"})},
        groups={"report-moved": Group(name="report-moved", cluster="west"), "till": Group(name="till", cluster="west")},
        direct_groups={"report-*": DirectGroups(pattern="report-*", since="t", by="me")},
    )
    found = conflicts(state, [Usage(user="bob", groups={"report-used": use, "other": use})])
    assert list(found) == [
        Conflict("report-bound", "report-*", "ann##report-bound is bound to west"),
        Conflict("report-moved", "report-*", "it was moved to west"),
        Conflict("report-used", "report-*", "gateways know users of it: bob"),
    ]


def test_numbers_differ_if_a_cluster_holds_records_at_other_client_offsets() -> None:
    assert other_numbers(view(), "west", {P: 60}) == {P: (60, 1_008)}
    assert other_numbers(view(MOVED), "east", {P: 60}) == {}
    assert other_numbers(view(), "east", {P: 60}) == {}, "it has a copy, whose mirror brings the number"


def test_a_topic_without_a_map_has_the_same_numbers_where_it_is_written() -> None:
    mirror = Mirror.of("orders", "east", "west", "link-1", "t", "me")
    state = View(mirrors={mirror.key: mirror})
    assert state.client_place("east", P, 12) == 12
    assert state.client_place("west", P, 12) is None


WEST_DIRECT, WEST_CLIENT = Place("report", "west", True), Place("till", "west", False)


def unused(_: Partition, offset: int) -> int | str:
    raise AssertionError(offset)


def test_a_direct_group_that_changes_to_gateways_resumes_at_its_next_record() -> None:
    found = carried(view(), WEST_DIRECT, WEST_CLIENT, {P: 49}, unused)
    assert (found.offsets, found.left) == ({P: 1_000}, {})


def test_a_gateway_clients_group_that_changes_to_a_cluster_resumes_at_its_next_record() -> None:
    assert carried(view(), WEST_CLIENT, WEST_DIRECT, {P: 40}, unused).offsets == {P: 41}
    found = carried(view(MOVED), WEST_CLIENT, WEST_DIRECT, {P: 40}, unused)
    assert found.left == {P: "west does not hold the records at client offset 40"}


def test_a_direct_group_resumes_in_another_cluster_by_the_mirrors_map() -> None:
    def translate(key: Partition, offset: int) -> int | str:
        return offset - 5 if key == P else "no mirror"

    there = Place("report", "east", True)
    found = carried(view(), WEST_DIRECT, there, {P: 49, ("bills", 0): 4}, translate)
    assert (found.offsets, found.left) == ({P: 44}, {("bills", 0): "no mirror"})
