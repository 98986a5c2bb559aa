"""Pages about declared flows, and about groups that move by flows."""

from collections.abc import Iterable, Iterator

from ha_core.flows.remarks import Remark
from ha_core.model import FlowDeclaration
from ha_core.operations.flows.declaring import Declaring
from ha_core.operations.flows.moving_group import GroupMove
from ha_core.present.page import Marked, Page, Table


def declaring_page(plan: Declaring) -> Page:
    """The flows of a declaration, and remarks about its keys and clusters."""
    yield plan.words
    if not plan.changed:
        yield "It is already declared with these keys."
    yield from remark_lines(plan.remarks)


def remark_lines(remarks: Iterable[Remark]) -> Iterator[str]:
    for remark in remarks:
        yield Marked(f"{remark.place}{remark.text}", "error" if remark.error else "warning")


def declared_page(declarations: Iterable[tuple[FlowDeclaration, int]]) -> Page:
    """:param declarations: declarations, each with the number of its workers."""
    columns = ("name", "revision", "workers", "since", "by", "reason")
    rows = [(one.name, one.revision, count, one.since, one.by, one.reason) for one, count in declarations]
    return (Table(columns, rows),) if rows else ("No flows are declared.",)


def group_move_page(move: GroupMove) -> Page:
    """Each of the group's offsets, in both clusters."""
    columns = ("partition", f"offset in {move.source}", f"partition in {move.target}", "offset there", "remark")
    rows: list[tuple[object, ...]] = [
        (f"{one.topic}-{one.partition}", one.offset, f"{one.place[0]}-{one.place[1]}", one.there, one.repeats)
        for one in move.moved
    ]
    rows += ((f"{one.topic}-{one.partition}", one.offset, "-", "-", one.reason) for one in move.not_moved)
    yield move.words
    yield Table(columns, rows)
