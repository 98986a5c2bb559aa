"""Whatever happens to users and rules: changes put the rights in force that a start would, from the stored content or
from a new read."""

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.follow.platform.rights import PlatformRights
from ha_core.datacache.cache_file import CacheFile
from ha_core.datacache.core.packed import packed, rows_of
from ha_core.datacache.core.source import Row
from ha_core.datacache.core.uncommitted import Content
from ha_core.model.access import AclOperation, ResourceType

USERS = ("alice", "bob", "carol")
HOSTS = ("10.0.0.7", "10.0.0.8")
NAMES = ("orders", "orders-1", "pay", "*", "kafka-cluster")
Value = dict[str, Any]

good_rules = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(["allow", "allow", "deny"]),
        "host": st.sampled_from(["*", "*", *HOSTS]),
        "name": st.sampled_from(NAMES),
        "operation": st.sampled_from(["all", "read", "write", "describe"]),
        "pattern": st.sampled_from(["literal", "prefixed"]),
        "principal": st.sampled_from([*(f"User:{user}" for user in USERS), "User:*", "Group:tills", "Group:ops"]),
        "resource_type": st.sampled_from(["topic", "group", "cluster"]),
    }
)
everything_denied = st.builds(
    lambda user, kind: {
        "effect": "deny",
        "host": "*",
        "name": "*",
        "operation": "all",
        "pattern": "literal",
        "principal": f"User:{user}",
        "resource_type": kind,
    },
    st.sampled_from(USERS),
    st.sampled_from(["topic", "group"]),
)
"""As where a user is disabled, or unreadable."""
harm = st.sampled_from(
    [
        {"operation": "levitate"},
        {"effect": "perhaps"},
        {"principal": "nobody"},
        {"principal": ["User:alice"]},
        {"name": {"in": "a dict"}},
        {"name": "not a topic"},
        {"host": "somewhere"},
        {"since": "a newer version"},
        {},
    ]
)
rules = st.one_of(good_rules, everything_denied, st.builds(lambda said, bad: {**said, **bad}, good_rules, harm))
users = st.fixed_dictionaries(
    {"super_user": st.sampled_from([False, False, False, True, "perhaps"])},
    optional={
        "groups": st.sampled_from([[], ["tills"], ["tills", "ops"], "tills", [1]]),
        "disabled": st.sampled_from([False, True, None]),
        "scram": st.sampled_from([{}, {"SCRAM-SHA-256": {"salt": "c2FsdA=="}}]),
    },
)
RULES, USER = "rules", "users"
steps = st.one_of(
    st.tuples(st.just(USER), st.dictionaries(st.sampled_from(USERS), st.none() | users, min_size=1)),
    st.tuples(st.just(RULES), st.lists(rules, min_size=1, max_size=4)),
    st.tuples(st.just("forget"), st.lists(st.integers(0, 30), min_size=1, max_size=3)),
    st.tuples(st.just("anew"), st.sampled_from([RULES, USER])),
)


class World:
    """A gateway that follows, and the files with its content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.contents = {kind: Content() for kind in (RULES, USER)}
        self.files = {kind: CacheFile(folder / kind, "here") for kind in self.contents}
        self.rights = PlatformRights()

    def take(self, kind: str, values: dict[str, Value | None]) -> None:
        last = self.contents[kind]
        versions = [packed(Row(key, last.at_us + number, said)) for number, (key, said) in enumerate(values.items(), 1)]
        self.serve(kind, last.after(versions, last.at_us + len(versions)))

    def anew(self, kind: str) -> None:
        """As where all was read again: the same content, of which nothing is shared with the one before."""
        last = self.contents[kind]
        plain = [Row(row.key, row.changed_us, dict(row.value or {})) for row in last.rows.all()]
        self.serve(kind, Content(last.at_us, rows_of(plain), last.fingerprint))

    def serve(self, kind: str, content: Content) -> None:
        self.contents[kind] = content
        (self.rights.follow_rules if kind == RULES else self.rights.follow_users)(content)
        self.files[kind].keep(content, time.time())

    def kept(self, kind: str) -> Content:
        content = CacheFile(self.folder / kind, "here").load()
        assert content is not None
        return content.content


def started(first: tuple[str, Content], second: tuple[str, Content]) -> PlatformRights:
    rights = PlatformRights()
    for kind, content in (first, second):
        (rights.follow_rules if kind == RULES else rights.follow_users)(content)
    return rights


def in_force(rights: PlatformRights) -> object:
    allowed = {
        (user, host, resource, name): rights.rights.of(user, host).operations(resource, name)
        for user in USERS
        for host in HOSTS
        for resource in ResourceType
        for name in (*NAMES, "order", "unheard-of")
    }
    anything = {
        (user, resource): rights.rights.of(user, HOSTS[0]).allows_any(AclOperation.READ, resource)
        for user in USERS
        for resource in ResourceType
    }
    return set(rights.rights.rules()), rights.unreadable, allowed, anything


@given(st.lists(steps, max_size=8))
@settings(deadline=None, max_examples=60)
def test_changes_put_the_rights_in_force_that_a_start_would(taken: list[tuple[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder))
        for kind, said in taken:
            # When
            if kind == USER:
                world.take(USER, said)
            elif kind == RULES:
                world.take(RULES, {json.dumps(rule, sort_keys=True): rule for rule in said})
            elif kind == "forget":
                keys = sorted(world.contents[RULES].rows)
                world.take(RULES, {keys[at % len(keys)]: None for at in said} if keys else {})
            else:
                world.anew(said)
            # Then
            expected = in_force(world.rights)
            users, rules = ((one, world.contents[one]) for one in (USER, RULES))
            assert in_force(started(users, rules)) == expected
            assert in_force(started(rules, users)) == expected
            for each in world.contents:
                if world.contents[each].at_us:
                    assert world.kept(each) == world.contents[each]
