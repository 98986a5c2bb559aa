"""Buffers for long answers are not reused while a view of them exists."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.kafka.stream import SHORT_BYTES, BufferPool, fitting

KIB = 1 << 10
steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, 600 * KIB)),
        st.tuples(st.just("keep a part"), st.integers(0, 10)),
        st.tuples(st.just("let go"), st.integers(0, 10)),
    ),
    max_size=60,
)


@given(steps, st.integers(0, 2000 * KIB))
@settings(deadline=None)
def test_buffer_with_a_view_is_not_reused(steps: list[tuple[str, int]], kept_bytes: int) -> None:
    # Given owners that take buffers and fill them, pass on views of parts and drop others, in any order
    rooms, views = BufferPool(kept_bytes), list[tuple[memoryview, int]]()
    for number, (what, argument) in enumerate(steps, start=1):
        if what == "take":
            taken = rooms.allocate(argument)
            assert len(taken) == argument
            taken[:] = bytes([number]) * argument
            views.append((taken, number))
        elif views and what == "keep a part":
            view, filled = views.pop(argument % len(views))
            views.append((view[len(view) // 3 : len(view) // 2 + 1], filled))
        elif views:
            del views[argument % len(views)]
        # Then every view shows what its owner wrote
        for view, filled in views:
            assert view[0] == view[-1] == filled
            assert bytes(view).count(filled) == len(view)


@given(st.lists(st.integers(1, 3000 * KIB), max_size=20), st.integers(1, 3000 * KIB))
@settings(deadline=None)
def test_fitting_answer_gets_no_larger_buffer(earlier: list[int], room_bytes: int) -> None:
    rooms = BufferPool(64 << 20)
    for size in earlier:
        rooms.allocate(size)
    size = fitting(room_bytes)
    assert 0 < size <= room_bytes
    # Then it needs no buffer, or one within the limit
    assert size <= SHORT_BYTES or len(owner(rooms.allocate(size))) <= room_bytes


def test_number_of_kept_buffers_is_bounded() -> None:
    rooms = BufferPool(64 << 20)
    views = [rooms.allocate(65 * KIB) for _ in range(100)]
    assert len(rooms._rooms) == 32
    # When free ones of another size take their places
    views.clear()
    rooms.allocate(300 * KIB)
    assert len(rooms._rooms) == 32


def test_buffer_without_views_is_reused() -> None:
    rooms = BufferPool(64 << 20)
    view = rooms.allocate(200 * KIB)
    first, part = id(view.obj), view[5:9]
    del view
    other = rooms.allocate(200 * KIB)
    assert id(other.obj) != first
    del part
    assert id(rooms.allocate(190 * KIB).obj) == first


def test_short_answer_does_not_take_a_long_buffer() -> None:
    rooms = BufferPool(64 << 20)
    rooms.allocate(8000 * KIB)
    assert len(owner(rooms.allocate(100 * KIB))) < 200 * KIB
    assert len(owner(rooms.allocate(7200 * KIB))) == 8000 * KIB


def test_buffers_above_the_limit_are_new_and_the_least_recently_used_goes_first() -> None:
    # Given room for three, all of which are in use
    rooms = BufferPool(3 * 128 * KIB)
    views = [rooms.allocate(128 * KIB) for _ in range(3)]
    # Then a fourth is not kept
    rooms.allocate(128 * KIB)
    assert len(rooms._rooms) == 3
    # When the second and the third are free, and a longer one is taken
    second, third = (id(view.obj) for view in views[1:])
    del views[1:]
    views.append(rooms.allocate(128 * KIB))
    assert id(views[-1].obj) == second
    views.append(rooms.allocate(32 * KIB))
    # Then the one that was not used since has made room for it
    assert third not in {id(room) for room in rooms._rooms}
    assert sum(map(len, rooms._rooms)) <= 3 * 128 * KIB


def test_lower_limit_frees_unused_buffers_only() -> None:
    rooms = BufferPool(1000 * KIB)
    views = [rooms.allocate(256 * KIB) for _ in range(3)]
    del views[:2]
    rooms.keep(300 * KIB)
    assert [id(room) for room in rooms._rooms] == [id(views[0].obj)]
    rooms.keep(0)
    assert len(rooms._rooms) == 1


def owner(view: memoryview) -> Any:
    return view.obj
