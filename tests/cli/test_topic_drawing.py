from ha_core.cli.commands.topic import draw
from ha_core.model import Extent, Topic
from ha_core.present.extents import widths

EAST = Extent(cluster="east", start=0, end=1200, base=0, writer_epoch=0)
WEST = Extent(cluster="west", start=1200, end=1500, base=70, writer_epoch=1)
BACK = Extent(cluster="east", start=1500, end=None, base=1200, writer_epoch=2)


def test_the_drawing_shows_cluster_offsets_and_writer_epoch_of_every_extent() -> None:
    drawing = draw(Topic(name="orders", writer="east", partitions={0: (EAST, WEST, BACK)})).plain

    assert "east [0, 1200) → 0 term 0" in drawing
    assert "west [1200, 1500) → 70 term 1" in drawing
    assert "east [1500, …) → 1200 term 2" in drawing


def test_the_drawing_distinguishes_clusters_by_fill_as_well_as_colour() -> None:
    line = draw(Topic(name="orders", writer="east", partitions={0: (EAST, WEST, BACK)})).plain

    assert "█" in line
    assert "▓" in line


def test_the_drawing_has_one_line_per_partition() -> None:
    drawing = draw(Topic(name="orders", writer="west", partitions=dict.fromkeys(range(11), (EAST, BACK)))).plain

    assert [line.split()[0] for line in drawing.splitlines()] == [str(p) for p in range(11)]


def test_a_short_extent_between_long_ones_has_at_least_one_cell() -> None:
    tiny = Extent(cluster="west", start=10**12, end=10**12 + 1, base=0, writer_epoch=1)
    huge = Extent(cluster="east", start=0, end=10**12, base=0, writer_epoch=0)

    assert all(cells >= 1 for cells in widths([huge, tiny] * 30))


def test_the_drawing_marks_unconfirmed_and_lost_ends() -> None:
    waiting = EAST.changed(known_end=900)
    lost = waiting.changed(found_end=7)
    topic = Topic(name="orders", writer="west", partitions={0: (waiting, WEST), 1: (lost, WEST)})

    first, second = draw(topic).plain.splitlines()

    assert "end not confirmed: known up to 900" in first
    assert "LOST: held up to 900, has up to 7" in second
