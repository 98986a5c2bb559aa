"""Places of topics' names in requests and answers, and the names themselves."""

from gateway.model.local_names import NAMED, local_names
from gateway.model.remote_topics import READING, RemoteTopicIndex
from gateway.model.topology import ClusterTopology, Topology
from ha_core.model import Cluster, FlowId, Identity, RemoteTopicPortion, UserBindings, View
from ha_core.model.access import AclOperation
from ha_core.wire import APIS, ApiKey, Destination

CLUSTERS = {name: Cluster(name=name, bootstrap="h:1", default=name == "east") for name in ("east", "west")}
TOPOLOGY = Topology({name: ClusterTopology(name, True, cluster_id=f"{name}-id") for name in CLUSTERS})
FLOW = RemoteTopicPortion.of(
    FlowId("A->B", "east-id", "west-id"), 0, {"A.orders": "orders", "same": "same", "A.checkpoints.internal": ""}
)
INDEX = RemoteTopicIndex([FLOW])
APP, HINTED = Identity("alice", "app"), Identity("alice", "HA#alice#orders", "orders")


def of(identity: Identity = APP, **bindings: object) -> dict[str, str | None]:
    """Name of the client → topic; empty: each topic has its own name."""
    user = UserBindings.model_validate({"user": "alice", **bindings})
    names = local_names(View(1, CLUSTERS, {"alice": user}), identity, INDEX, TOPOLOGY)
    return {} if names is None else {name: names.real(name) for name in ("orders", "same", "other", "A.orders", "")}


def test_each_api_that_reads_topics_by_name_is_renamed() -> None:
    """A new one that is forgotten would show a client the topic that its local name hides."""
    reading = {
        key
        for key, api in APIS.items()
        if api.destination is not Destination.HIDDEN
        and any(each.resource == "TOPIC" and READING >> AclOperation[each.operation] & 1 for each in api.asks.each)
    }

    assert reading == NAMED.keys() | {ApiKey.FETCH}


def test_only_a_remote_topic_with_a_source_of_another_name_has_a_local_name() -> None:
    found = of(cluster="west", local_names="A")

    assert found == {"orders": "A.orders", "same": None, "other": None, "A.orders": None, "": None}


def test_names_follow_the_instances_cluster_or_the_default() -> None:
    assert of(cluster="east", instances={"app": "west"}, local_names="A")["orders"] == "A.orders"
    assert of(local_names="A")["orders"] is None  # in east, the default
    assert of(cluster="west", instances={"app": "east"}, local_names="A")["orders"] is None


def test_another_source_or_none_shows_no_local_name() -> None:
    assert of(cluster="west", local_names="C")["orders"] is None
    assert of(cluster="west") == {}


def test_a_client_id_that_names_a_bound_topic_has_no_local_names() -> None:
    assert of(HINTED, cluster="west", topics={"orders": "east"}, local_names="A") == {}
    assert of(HINTED, cluster="west", local_names="A")["orders"] == "A.orders"
