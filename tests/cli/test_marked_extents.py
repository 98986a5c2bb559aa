"""`status` names returned clusters whose logs do not fit their extents, by what is wrong with them."""

import pytest

from ha_core.model import Cluster, Topic
from ha_core.model.extent import append, identity
from tests.cli.invoking import problems, seeded, use

EAST = Cluster(name="east", bootstrap="127.0.0.1:1", default=True)
WEST = Cluster(name="west", bootstrap="127.0.0.1:1")


def moved(name: str, found_end: int) -> Topic:
    old, new = append(identity("east"), "west", 1_000, 0, known_end=40)
    return Topic(name=name, writer="west", partitions={0: (old.changed(found_end=found_end), new)})


def test_a_log_above_its_cut_is_not_reported_as_missing_records(monkeypatch: pytest.MonkeyPatch) -> None:
    use(seeded(EAST, WEST, moved("less", 39), moved("more", 1_001)), monkeypatch)

    texts = {problem["text"]: problem["remedy"] for problem in problems() if "readers wait" in problem["text"]}

    assert texts == {
        "It returned with less than it held: records of less are missing, and readers wait.": (
            "Restore them, or `switchyard origins check TOPIC --accept-loss`."
        ),
        "It returned with records of more above the cut, which no reader gets, and readers wait.": (
            "Copy those that matter from east, then `switchyard origins check TOPIC --accept-loss`."
        ),
    }
