"""Offsets that librdkafka makes up for batches answered as duplicates are not taken for places."""

from __future__ import annotations

from stack.clients.confluent_producer import Places


def test_what_is_counted_on_from_a_duplicate_batch_is_no_place() -> None:
    places = Places()
    assert [places.place("orders", 0, offset) for offset in (7, -1, 0, 1, 9, 10)] == [7, -1, -1, -1, 9, 10]


def test_a_duplicate_in_one_partition_says_nothing_of_another_nor_of_a_new_topics_first_records() -> None:
    places = Places()
    assert [places.place("orders", 0, None), places.place("orders", 1, 0), places.place("orders", 1, 1)] == [-1, 0, 1]
