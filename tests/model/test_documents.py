import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ha_core.model import (
    ANONYMOUS,
    Cluster,
    Extent,
    Identity,
    LastSequences,
    Topic,
    UnreadableDocumentError,
    View,
    identify,
)
from ha_core.model.producer import (
    FIRST_CLIENT_ID,
    MAX_WRITER_EPOCH,
    WRITER_EPOCH_STRIDE,
    client_id,
    is_gateway_id,
    issued_id,
    issuer,
    upstream_id,
)

TOPIC = Topic(name="t", writer="east", partitions={0: (Extent(cluster="east", start=0, base=0, writer_epoch=0),)})


def test_a_document_is_read_back_as_it_was_written() -> None:
    assert Topic.from_bytes(TOPIC.to_bytes(), "/topics/t") == TOPIC


def test_unknown_fields_of_a_newer_writer_are_accepted_but_not_a_newer_schema() -> None:
    assert Cluster.from_bytes(b'{"name":"east","bootstrap":"h:1","colour":"red"}', "/c").name == "east"
    with pytest.raises(UnreadableDocumentError, match=r"/c: schema 2 is newer than 1"):
        Cluster.from_bytes(b'{"schema":2,"name":"east","bootstrap":"h:1"}', "/c")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b'{"name":"east"}', b'{"name":"East!","bootstrap":"h:1"}'])
def test_an_unreadable_document_is_named_by_its_path(data: bytes) -> None:
    with pytest.raises(UnreadableDocumentError, match="/clusters/east"):
        Cluster.from_bytes(data, "/clusters/east")


def test_documents_cannot_be_changed_in_place() -> None:
    with pytest.raises(ValidationError):
        TOPIC.writer = "west"


def test_the_default_cluster_is_the_marked_one_or_the_only_one() -> None:
    east, west = (Cluster(name=name, bootstrap="h:1") for name in ("east", "west"))
    marked = west.model_copy(update={"default": True})

    assert View().default_cluster is None
    assert View(clusters={"east": east}).default_cluster == "east"
    assert View(clusters={"east": east, "west": west}).default_cluster is None
    assert View(clusters={"east": east, "west": marked}).default_cluster == "west"


@pytest.mark.parametrize(
    ("user", "client", "expected"),
    [
        (None, None, Identity(ANONYMOUS, "")),
        ("alice", "app", Identity("alice", "app")),
        (None, "HA#bob#orders", Identity("bob", "HA#bob#orders", "orders")),
        ("bob", "HA#bob#orders", Identity("bob", "HA#bob#orders", "orders")),
        ("alice", "HA#bob#orders", Identity("alice", "HA#bob#orders")),
        (None, "HA#bob", Identity(ANONYMOUS, "HA#bob")),
        (None, "HA##orders", Identity(ANONYMOUS, "HA##orders")),
        (None, "HA#bob#a#b", Identity("bob", "HA#bob#a#b", "a#b")),
    ],
)
def test_an_ha_client_id_names_user_and_topic_but_never_overrides_authentication(
    user: str | None, client: str | None, expected: Identity
) -> None:
    assert identify(user, client) == expected


@given(st.integers(FIRST_CLIENT_ID, WRITER_EPOCH_STRIDE - 1), st.integers(0, MAX_WRITER_EPOCH))
def test_a_producer_id_of_a_writer_epoch_leads_back_to_the_clients_id(producer: int, writer_epoch: int) -> None:
    upstream = upstream_id(producer, writer_epoch)

    assert client_id(upstream) == producer
    assert upstream < 1 << 63
    assert is_gateway_id(producer)
    assert upstream // WRITER_EPOCH_STRIDE == writer_epoch


@given(st.integers(0, FIRST_CLIENT_ID - 1), st.integers(0, MAX_WRITER_EPOCH))
def test_producer_ids_that_clusters_hand_out_are_left_alone(producer: int, writer_epoch: int) -> None:
    assert upstream_id(producer, writer_epoch) == producer
    assert client_id(producer) == producer
    assert not is_gateway_id(producer)


@pytest.mark.parametrize("writer_epoch", [-1, MAX_WRITER_EPOCH + 1])
def test_a_writer_epoch_that_does_not_fit_is_refused(writer_epoch: int) -> None:
    with pytest.raises(ValueError, match="outside 0 to"):
        upstream_id(FIRST_CLIENT_ID, writer_epoch)


@given(st.integers(0, FIRST_CLIENT_ID - 1), st.integers(1, MAX_WRITER_EPOCH))
def test_a_transactional_producer_id_tells_its_issuer_and_is_no_gateway_id(own: int, node: int) -> None:
    shown = issued_id(own, node)
    assert issuer(shown) == (node, own)
    assert not is_gateway_id(shown)
    assert 0 < shown < 1 << 63


@given(st.integers(-1, WRITER_EPOCH_STRIDE - 1))
def test_other_producer_ids_have_no_issuer(producer: int) -> None:
    assert issuer(producer)[0] < 1


@given(
    st.dictionaries(
        st.integers(0, 5),
        st.dictionaries(
            st.integers(0, 2**63 - 1),
            st.tuples(st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)),
            max_size=40,
        ),
    )
)
def test_last_sequences_are_read_back_however_many_they_are(partitions: dict[int, dict[int, tuple[int, int]]]) -> None:
    document = LastSequences(name="t", partitions=partitions, terms={0: 1})

    assert LastSequences.from_bytes(document.to_bytes(), "/sequences/t") == document


@pytest.mark.parametrize(
    "columns", [[], [[1], [0]], [[1, 2], [0], [5]], [["a"], [0], [5]], [[1], [0], ["b"]], [[None]] * 3]
)
def test_columns_of_last_sequences_of_unequal_length_or_type_cannot_be_read(columns: list[object]) -> None:
    data = json.dumps({"name": "t", "partitions": {"0": columns}}).encode()

    with pytest.raises(UnreadableDocumentError, match="/sequences/t: partitions"):
        LastSequences.from_bytes(data, "/sequences/t")
