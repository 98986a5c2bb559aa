"""Users whose switch would take along topics of many others are found by their usage."""

from ha_core.model import Cluster, Usage, Use, View
from ha_core.plan.move.users import SHARED, WIDE, widths

VIEW = View(clusters={"east": Cluster(name="east", bootstrap="h:1", super_users=("root",))})


def uses(user: str, *topics: str, instances: int = 1) -> Usage:
    use = tuple(Use(instance=f"app-{number}", how="fetch", since="2026-01-01T00:00:00Z") for number in range(instances))
    return Usage(user=user, topics=dict.fromkeys(topics, use))


def wide(*usage: Usage) -> list[str]:
    return [width.user for width in widths(VIEW, {one.user: one for one in usage}) if width.wide]


def test_a_super_user_is_wide_whether_or_not_any_use_of_it_is_known() -> None:
    assert wide(uses("shop", "orders")) == ["root"]


def test_a_user_of_many_topics_or_by_many_instances_is_wide() -> None:
    many = uses("etl", *(f"t{number}" for number in range(WIDE + 1)))
    fleet = uses("fleet", "orders", instances=WIDE + 1)
    assert sorted(wide(many, fleet, uses("shop", "orders"))) == ["etl", "fleet", "root"]


def test_a_user_that_shares_topics_with_many_others_is_wide() -> None:
    others = [uses(f"u{number}", f"own-{number}") for number in range(SHARED + 1)]
    hub = uses("hub", *(f"own-{number}" for number in range(SHARED + 1)))
    assert wide(hub, *others) == ["hub", "root"]
