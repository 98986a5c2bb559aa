"""The assignment of a consumer group member, read from its own bytes."""

import struct

import pytest

from ha_core.wire.assignment import assigned_topics


def assignment(*topics: tuple[str, int]) -> bytes:
    """Version 0: topics with this number of partitions each, and user data."""
    parts = [struct.pack(">hi", 0, len(topics))]
    for name, count in topics:
        parts.append(struct.pack(">h", len(name)) + name.encode())
        parts.append(struct.pack(f">i{count}i", count, *range(count)))
    return b"".join(parts) + struct.pack(">i", -1)


def test_an_assignment_names_the_topics_that_a_member_has_partitions_of() -> None:
    assert assigned_topics(assignment(("orders", 3), ("none", 0), ("refunds", 1))) == {"orders", "refunds"}


@pytest.mark.parametrize("cut", range(len(assignment(("orders", 3)))))
def test_bytes_that_are_no_assignment_name_nothing(cut: int) -> None:
    found = assigned_topics(assignment(("orders", 3))[:cut])
    # The user data at the end are not parsed
    assert found == ({"orders"} if cut >= len(assignment(("orders", 3))) - 4 else set())
    assert assigned_topics(b"\xff" * 40) == set()
