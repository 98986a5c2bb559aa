"""Pages about gateways."""

from ha_core.model import GatewayRecord
from ha_core.operations.access.caches import CacheStanding
from ha_core.present.page import Table
from ha_core.present.status import caches_page


def test_followers_of_the_platform_are_counted_in_gateways_as_the_status_lists_them() -> None:
    # Given two gateways of two workers each, of which one is behind
    names = [f"gw-{gateway}.{worker}" for gateway in (1, 2) for worker in (0, 1)]
    records = [GatewayRecord(id=name, worker_of=name[:4], host="h", port=1, node_id=1) for name in names]
    users = CacheStanding("users", "now", tuple(names), ("gw-1.1",), {})
    # When
    (table,) = caches_page([users], records)
    # Then
    assert isinstance(table, Table)
    assert list(table.rows) == [("users", "now", 2, "gw-1.1", "")]
    # And programs find the lagging ones under the name that they know
    assert users.to_json()["behind"] == ("gw-1.1",)
