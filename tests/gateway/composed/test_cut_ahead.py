"""Answers about a topic with a cut ahead: its origin still grows, and clients write there."""

import pytest

from gateway.composed.delete_records import delete_records
from gateway.composed.metadata import metadata
from gateway.composed.offsets import list_offsets, offset_for_leader_epoch
from ha_core.model import Crossing, Topic
from ha_core.wire.codes import ApiKey
from tests.gateway.composed import described_clusters, logs
from tests.gateway.composed.logs import EARLIEST, HOLDS, LATEST, listed, log
from tests.gateway.composed.playbook import NodesGranted, Playbook, away, moved, only_partition, requested, world

NO_LEADER = 5
LOGS = {"east": log(0, 60), "west": log(40, 40)}


def crossing() -> Topic:
    """Client offsets 0 to 99 in east, some not written yet; from 100 on in west, from its own offset 40."""
    return moved().model_copy(update={"writer": "east", "crossing": Crossing(operation="m-1", state="open")})


@pytest.mark.parametrize(("end", "latest"), [(0, 0), (60, 60), (99, 99), (100, 115), (130, 115)])
def test_the_latest_offset_is_the_origins_until_its_log_has_reached_the_cut(end: int, latest: int) -> None:
    assert listed(LATEST, log(0, end), log(40, 55), crossing()) == (0, -1, latest)


@pytest.mark.parametrize(
    ("start", "end", "earliest"),
    [(0, 0, 0), (30, 30, 30), (30, 70, 30), (100, 120, 115)],
    ids=["nothing written yet", "all deleted", "some left", "all below the cut deleted"],
)
def test_the_earliest_offset_is_that_of_the_origins_next_record(start: int, end: int, earliest: int) -> None:
    # A reader that began above the cut would miss records that are still to come below it
    west = log(55, 55) if earliest == 115 else log(40, 40)
    assert listed(EARLIEST, log(start, end), west, crossing()) == (0, -1, earliest)


def test_the_end_of_an_epoch_is_the_origins_end() -> None:
    key = ApiKey.OFFSET_FOR_LEADER_EPOCH
    request = requested(
        key, 4, replica_id=-1, topics=[{"topic": "orders", "partitions": [{"partition": 0, "leader_epoch": 3}]}]
    )
    context = world(east=HOLDS, west=HOLDS, topics=(crossing(),), port=("east", 1))

    play = Playbook(offset_for_leader_epoch(context, 4, request)).answers_all(LOGS)

    assert only_partition(play.result)["end_offset"] == 60


def test_records_are_not_deleted_while_their_place_is_undecided() -> None:
    key = ApiKey.DELETE_RECORDS
    request = requested(
        key, 2, timeout_ms=1000, topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": -1}]}]
    )
    context = world(east=HOLDS, west=HOLDS, topics=(crossing(),), port=("east", 1))

    play = Playbook(delete_records(context, 2, request)).answers_all(LOGS)

    assert only_partition(play.result)["error_code"] == NO_LEADER


def test_clients_are_routed_to_the_origin() -> None:
    play = NodesGranted(
        metadata(world(east=HOLDS, west=HOLDS, topics=(crossing(),)), 9, described_clusters.ask("orders"))
    )
    play.answers({"east": described_clusters.cluster("east", orders=1)})
    partition = only_partition(play.result)
    assert (partition["error_code"], partition["leader_id"], partition["leader_epoch"]) == (0, 11, -1)


def test_a_question_about_the_end_waits_while_the_origin_is_unreachable() -> None:
    context = world(east=HOLDS, west=HOLDS, topics=(crossing(),), port=("west", 1), down="east")
    play = Playbook(list_offsets(context, 7, logs.ask(LATEST)))
    play.answers({"east": away("east"), "west": log(40, 55)})
    assert only_partition(play.result)["error_code"] == NO_LEADER
