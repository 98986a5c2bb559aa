"""Observations of fault tests: leaders, acknowledged and read records, failed clients."""

from collections.abc import Collection

import httpx

from ha_core.store.zookeeper import connect
from stack.clients.process import ClientProcess, history_of
from stack.harness import Stack
from stack.history.events import Failed, LibraryRemark
from tests.kit.progress import given
from tests.kit.running import ZOOKEEPER_ROOT, bootstrap, switchyard


def led_from(stack: Stack, name: str) -> set[str]:
    """Clusters to whose brokers the gateways send clients of the topic."""
    from confluent_kafka.admin import AdminClient

    store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    try:
        clusters = {node: key.split(":", maxsplit=1)[0] for key, node in store.nodes().items()}
    finally:
        store.close()
    found: set[str] = set()
    for gateway in stack.gateways:
        settings = {"bootstrap.servers": gateway["bootstrap"], "client.id": f"HA#{name}#{name}", "log_level": 3}
        partitions = AdminClient(settings).list_topics(name, timeout=20).topics[name].partitions.values()
        found |= {clusters.get(partition.leader, "nowhere") for partition in partitions}
    return found


def client_id_at(stack: Stack, user: str, gateway: int) -> str:
    """A client id of the user whose clients are sent to that gateway's ports."""
    from confluent_kafka.admin import AdminClient

    first_port = next(
        known["first_node_port"] for known in switchyard(stack, "status")["gateways"] if known["id"] == f"gw-{gateway}"
    )
    for number in range(40):
        client_id = f"HA#{user}#{number}"
        client = AdminClient({"bootstrap.servers": stack.bootstrap, "client.id": client_id, "log_level": 3})
        found = client.list_topics(user, timeout=20)
        leaders = {partition.leader for partition in found.topics[user].partitions.values()}
        if all(0 <= found.brokers[leader].port - first_port < 100 for leader in leaders):
            return client_id
    raise AssertionError(f"none of 40 client ids is served by gateway {gateway}")


def metrics_of(stack: Stack, gateway: int) -> str:
    """The page for Prometheus of the gateway with that number."""
    url = next(known["http"] for known in stack.gateways if known["id"] == f"gw-{gateway}") + "/metrics"
    return httpx.get(url, trust_env=False).text


def leaders(stack: Stack, cluster: str, topic: str) -> dict[int, int]:
    """Partition → leading broker, from the cluster itself; {} if it has no such topic."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap(stack, cluster), "log_level": 3})
    found = admin.list_topics(timeout=20).topics.get(topic)  # a request by its name might create it
    return {} if found is None else {partition.id: partition.leader for partition in found.partitions.values()}


def assert_ascending(consumer: ClientProcess) -> None:
    """Offsets never go back, nor get a second record, with any assignments."""
    last: dict[int, int] = {}
    for record in given(consumer):
        assert record.offset > last.get(record.partition, -1), f"{record} after offset {last[record.partition]}"
        last[record.partition] = record.offset


def assert_no_client_has_failed(clients: Collection[ClientProcess]) -> None:
    """No record was given up, and no library had a fatal error."""
    events = [event for known in history_of(clients).clients.values() for event in known]
    assert [
        event for event in events if isinstance(event, Failed) or (isinstance(event, LibraryRemark) and event.fatal)
    ] == []
