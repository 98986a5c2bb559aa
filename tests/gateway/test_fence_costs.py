"""The cost of fences is counted by operation and user, within bounds."""

from gateway.model.fence_costs import MAX_OPERATIONS, MAX_USERS, FenceCosts
from ha_core.model.gateway import FenceCost


def test_a_user_waits_from_its_first_refused_request_to_the_end_of_the_fence() -> None:
    costs = FenceCosts()
    costs.follow({"switch-1"}, 10.0)
    for user, now in (("ann", 10.01), ("bob", 10.02), ("ann", 10.05)):
        costs.refused("switch-1", user, now)

    costs.follow(set(), 10.06)

    assert costs.report(99.0) == {"switch-1": FenceCost(refused=3, users={"ann": (2, 50.0), "bob": (1, 40.0)})}


def test_a_fence_that_refuses_nothing_is_reported_as_such_and_one_that_never_stood_here_is_not() -> None:
    costs = FenceCosts()

    costs.follow({"switch-1"}, 10.0)
    costs.refused("switch-2", "ann", 10.0)

    assert costs.report(10.0) == {"switch-1": FenceCost()}


def test_users_and_operations_are_bounded() -> None:
    costs = FenceCosts()
    costs.follow({"switch-0"}, 0.0)
    for n in range(MAX_USERS + 10):
        costs.refused("switch-0", f"user-{n}" + "x" * 1000, 0.0)
        costs.refused("switch-0", f"user-{n}" + "x" * 1000, 0.0)
    (cost,) = costs.report(0.0).values()
    assert (cost.refused, len(cost.users), cost.users_left_out) == (2 * (MAX_USERS + 10), MAX_USERS, 10)
    assert max(map(len, cost.users)) <= 200

    for n in range(1, MAX_OPERATIONS + 5):
        costs.follow({f"switch-{n}"}, float(n))

    assert len(costs.report(99.0)) == MAX_OPERATIONS
    assert f"switch-{MAX_OPERATIONS + 4}" in costs.report(99.0)


def test_a_fence_that_still_stands_is_not_forgotten_for_newer_ones() -> None:
    costs = FenceCosts()
    for n in range(MAX_OPERATIONS + 5):
        costs.follow({"first", f"switch-{n}"}, float(n))

    assert "first" in costs.report(99.0)
