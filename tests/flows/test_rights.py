"""The rights that a flow's account needs."""

from pathlib import Path

from ha_core.flows.rights import ACCOUNT_RIGHTS, FlowNeeds, lacking

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "mirror-maker.md"
_BITS = {"Read": 3, "Write": 4, "Alter": 7, "Describe": 8, "DescribeConfigs": 10, "AlterConfigs": 11}


def test_the_guide_lists_all_rights() -> None:
    lines = GUIDE.read_text("utf-8").splitlines()
    told = [line for line in lines if line.startswith(("| source | ", "| target | "))]
    assert told == [
        f"| {one.side} | {one.resources} | {', '.join(one.operations)} | {one.use} |" for one in ACCOUNT_RIGHTS
    ]


def test_rights_that_are_checked_before_a_start_are_listed() -> None:
    # Given a flow with all of its work, whose account has no right at all
    internal = {"A": ["mm2-offset-syncs.B.internal"], "B": ["mm2-copies.internal", "heartbeats"]}
    needs = FlowNeeds("A", "B", ["t"], ["A.t"], internal, syncs_settings=True, syncs_acls=True)
    granted = {(need.alias, need.topic): 0 for need in needs}
    # When the check names what the account lacks
    found = {(one.alias, topic, one.operation) for one in lacking(needs, granted) for topic in one.topics}
    # Then each of these rights is in the list
    names = {"t": "copied topics", "A.t": "remote topics", "": "cluster"}
    sides = {"A": "source", "B": "target"}
    listed = {
        (one.side, one.resources.replace("TARGET", "B"), operation)
        for one in ACCOUNT_RIGHTS
        for operation in one.operations
    }
    assert {
        (sides[alias], names.get(topic, f"topic `{topic}`"), operation) for alias, topic, operation in found
    } <= listed
    assert ("target", "topic `mm2-copies.internal`", "DescribeConfigs") in listed


def test_a_right_that_the_brokers_report_is_not_lacking() -> None:
    needs = FlowNeeds("A", "B", ["t"], [], {}, syncs_settings=True, syncs_acls=False)
    granted = {("A", "t"): 1 << _BITS["Read"] | 1 << _BITS["Describe"]}
    assert [one.text for one in lacking(needs, granted)] == [
        "A: the account lacks the right DescribeConfigs on the topic t: they are not copied"
    ]
