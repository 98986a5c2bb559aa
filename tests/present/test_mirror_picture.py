"""Mirrors drawn: what stands badly is seen first, nothing is loaded, and names are only text."""

from xml.etree import ElementTree

from ha_core.model import Mirror, PartitionReport
from ha_core.operations.clusters.mirrors import MirrorRow, MirrorsNow, State
from ha_core.plan.mirror.total import MirrorTotal
from ha_core.present.colours import GREEN, GREY, ORANGE, VERMILION
from ha_core.present.mirror_picture import MAX_CELLS, MAX_MIRRORS, MAX_ROWS, MAX_TITLE, document, svg

SVG = "{http://www.w3.org/2000/svg}"
AT = "2026-11-23T12:00:00Z"


def row(topic: str, partition: int | None, state: State, rpo_s: int | None = None, reason: str = "") -> MirrorRow:
    return MirrorRow(topic, partition, "east", "west", state, rpo_s=rpo_s, reason=reason)


def now(*rows: MirrorRow) -> MirrorsNow:
    topics = list(dict.fromkeys(mirror_row.topic for mirror_row in rows))
    totals = [
        (
            Mirror.of(topic, "east", "west", "link-1", AT, "test"),
            MirrorTotal.of(
                PartitionReport(
                    mirror=topic,
                    topic=topic,
                    partition=mirror_row.partition or 0,
                    state="copying",
                    rpo_s=mirror_row.rpo_s,
                )
                for mirror_row in rows
                if mirror_row.topic == topic
            ),
        )
        for topic in topics
    ]
    return MirrorsNow(list(rows), totals)


def cells(picture: str) -> list[tuple[str, str]]:
    """(colour, words) of each cell, in order."""
    found = []
    for one in ElementTree.fromstring(picture).iter(f"{SVG}rect"):
        title = one.find(f"{SVG}title")
        if title is not None:
            found.append((one.attrib["fill"], title.text or ""))
    return found


def words(picture: str) -> list[str]:
    return [one.text or "" for one in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_each_partition_has_a_cell_in_the_colour_of_how_it_stands_and_the_worst_mirror_comes_first() -> None:
    level, lagging = row("level", 0, "copying", 1), row("late", 0, "copying", 70)
    stopped = row("orders", 1, "stopped", 400, "retention has overtaken the copy")

    picture = svg(now(level, lagging, row("orders", 0, "copying", 2), stopped, row("alone", None, "nobody")), AT)

    found = cells(picture)
    assert [colour for colour, _ in found] == [GREEN, VERMILION, GREY, ORANGE, GREEN]
    assert "partition 1: stopped" in found[1][1]
    assert "retention has overtaken the copy" in found[1][1]
    titles = [one for one in words(picture) if "→" in one]
    assert titles == ["orders: east → west", "alone: east → west", "late: east → west", "level: east → west"]
    # And who sees no colours sees signs
    assert words(picture).count("!") == 2
    assert "RPO 7 min, 0 B/s" in words(picture)


def test_of_more_partitions_than_there_is_room_for_several_share_a_cell_which_shows_the_worst() -> None:
    rows = [row("wide", number, "stopped" if number == 70 else "copying", 1) for number in range(4 * MAX_CELLS)]

    found = cells(svg(now(*rows), AT))

    assert len(found) == MAX_CELLS
    assert [index for index, (colour, _) in enumerate(found) if colour == VERMILION] == [70 // 4]
    assert "partition 70 and 3 more" in found[70 // 4][1]


def test_a_long_name_is_shortened_and_its_tooltip_shows_it_whole() -> None:
    name = "a-topic-" * 12
    picture = svg(now(row(name, 0, "copying", 1)), AT)
    (title,) = (one for one in words(picture) if one.startswith("a-topic-"))
    assert len(title) == MAX_TITLE
    assert title.endswith("…: east → west")  # the name does not show the direction
    assert f"<title>{name}: east → west</title>" in picture


def test_an_unreadable_mirror_is_drawn_as_one_that_needs_a_look() -> None:
    lost = MirrorsNow([row("orders", None, "unreadable", None, "its document cannot be read")], [])
    picture = svg(lost, AT)
    assert "no topic is mirrored" not in words(picture)
    assert [colour for colour, _ in cells(picture)] == [GREY]


def test_mirrors_in_a_bad_state_are_not_cut_off_from_the_table() -> None:
    healthy = [row("aaa", number, "copying", 1) for number in range(MAX_ROWS + 5)]
    page = document(now(*healthy, row("zzz", 0, "stopped", 400, "retention has overtaken the copy")), [], AT)
    assert "<td>retention has overtaken the copy</td>" in page


def test_why_a_partition_has_stopped_stands_above_those_that_are_well() -> None:
    healthy = [row("aaa", number, "copying", 1) for number in range(3)]
    page = document(now(*healthy, row("zzz", 0, "stopped", 400, "retention has overtaken the copy")), [], AT)
    partitions = page[page.index("partitions</h") :]
    assert partitions.index("<td>retention has overtaken the copy</td>") < partitions.index("<td>aaa</td>")


def test_the_number_of_drawn_mirrors_is_bounded_and_the_rest_is_counted() -> None:
    picture = svg(now(*(row(f"t-{number:03}", 0, "copying", 1) for number in range(MAX_MIRRORS + 5))), AT)
    assert len(cells(picture)) == MAX_MIRRORS
    assert "… and 5 more in a better state" in words(picture)
    assert "no topic is mirrored" in words(svg(now(), AT))


def test_names_and_reasons_are_text_wherever_they_stand() -> None:
    evil = row("<script>alert(1)</script>&\"'", 0, "stopped", 1, "</title><img src=x onerror=alert(1)>")

    picture, page = svg(now(evil), AT), document(now(evil), ["<b>below</b>"], AT)

    assert ElementTree.fromstring(picture).find(".//img") is None
    for text in (picture, page):
        assert "<script" not in text
        assert "<img" not in text
    assert "&lt;b&gt;below" in page
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_copy_with_a_large_lag_is_not_marked_as_good_below_its_picture() -> None:
    page = document(now(row("late", 0, "copying", 70), row("level", 0, "copying", 1)), [], AT)

    assert '<td class="warning">copying</td>' in page
    assert '<td class="good">copying</td>' in page


def test_a_mirror_without_reports_has_no_rate() -> None:
    alone = row("alone", None, "nobody", reason="check that the job `mirror` is running")
    mirrors = MirrorsNow([alone], [(Mirror.of("alone", "east", "west", "link-1", AT, "test"), MirrorTotal.of(()))])

    page = document(mirrors, [], AT)

    assert "0 B/s" not in page
    assert "RPO ?, ?" in page
    assert "`" not in page
