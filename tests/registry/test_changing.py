"""Changes: versions, times, refusals, and atomicity."""

import pytest

from ha_core.model import Use, identify
from ha_core.model.identity import NAMED_FORMS, instance_of
from ha_core.platform.changing import MAX_EDITS, Edit, put
from ha_core.platform.database import Database
from ha_core.platform.errors import InvalidError, NotThereError, StaleVersionError, StillUsedError
from ha_core.platform.kinds.instances import MAX_TOPICS, Instance, new_name
from ha_core.platform.kinds.quotas import QuotaEntry
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.kinds.settings import SettingEntry
from ha_core.platform.kinds.topics import RegisteredTopic
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform

BY, WHY = "operator", "a test"


def reads(principal: str = "User:alice", topic: str = "orders") -> RuleEntry:
    return RuleEntry(principal=principal, resource_type="topic", name=topic, operation="read")


def counts(registry: Platform) -> dict[str, int]:
    return {kind: len(registry.read.history(kind).stored) for kind in ("users", "rules", "quotas", "settings")}


def test_a_change_has_its_author_time_reason_and_version(registry: Platform) -> None:
    # When a user is made and changed
    first = registry.create(UserEntry(name="alice", owner="shop"), BY, WHY)
    second = registry.replace(UserEntry(name="alice", owner="till"), first.version, "another", "moved")
    # Then each change is kept as it was
    assert (first.version, second.version) == (1, 2)
    assert second.changed_us > first.changed_us
    history = registry.read.history("users", "alice").stored
    assert [(entry.version, entry.by, entry.reason) for entry in history] == [(2, "another", "moved"), (1, BY, WHY)]
    assert [entry.entry for entry in history] == [second.entry, first.entry]


def test_an_existing_entry_is_not_created_again_and_the_error_has_its_version(registry: Platform) -> None:
    registry.create(UserEntry(name="alice"), BY, WHY)

    with pytest.raises(StaleVersionError) as refused:
        registry.create(UserEntry(name="alice", owner="other"), BY, WHY)

    assert refused.value.details["current"] == 1
    assert registry.read.get("users", "alice").entry == UserEntry(name="alice")


def test_a_stale_version_changes_and_deletes_nothing(registry: Platform) -> None:
    registry.create(UserEntry(name="alice"), BY, WHY)
    registry.replace(UserEntry(name="alice", owner="shop"), 1, BY, WHY)

    with pytest.raises(StaleVersionError, match="at version 2, the change was based on version 1"):
        registry.replace(UserEntry(name="alice", owner="till"), 1, BY, WHY)
    with pytest.raises(StaleVersionError):
        registry.delete("users", "alice", 1, BY, WHY)

    assert registry.read.get("users", "alice").version == 2


def test_versions_continue_after_a_deletion(registry: Platform) -> None:
    # Given a user that was deleted
    registry.create(UserEntry(name="alice"), BY, WHY)
    deleted = registry.delete("users", "alice", 1, BY, WHY)
    # When it is made again
    again = registry.create(UserEntry(name="alice"), BY, WHY)
    # Then no version is used twice, and a change based on one from before the deletion is refused
    assert (deleted.version, deleted.entry, again.version) == (2, None, 3)
    with pytest.raises(StaleVersionError):
        registry.replace(UserEntry(name="alice", owner="x"), 1, BY, WHY)


def test_a_missing_entry_is_neither_read_nor_changed_nor_deleted(registry: Platform) -> None:
    with pytest.raises(NotThereError):
        registry.read.get("users", "nobody")
    with pytest.raises(StaleVersionError):
        registry.replace(UserEntry(name="nobody"), 1, BY, WHY)
    with pytest.raises(NotThereError):
        registry.delete("users", "nobody", 1, BY, WHY)


def test_a_change_that_changes_nothing_makes_no_version(registry: Platform) -> None:
    first = registry.create(UserEntry(name="alice", groups=("b", "a")), BY, WHY)

    assert registry.replace(UserEntry(name="alice", groups=("a", "b")), 1, BY, "again") == first


def test_a_dry_run_checks_everything_and_writes_nothing(registry: Platform) -> None:
    made = registry.create(UserEntry(name="alice"), BY, WHY, dry_run=True)

    assert made.version == 1
    assert registry.read.find("users", "alice") is None
    with pytest.raises(InvalidError, match="alice"):
        registry.create(reads(), BY, WHY, dry_run=True)


@pytest.mark.parametrize(
    "entry",
    [
        reads("User:nobody"),
        reads("Group:nobody"),
        QuotaEntry(user="nobody", producer_byte_rate=1),
        RegisteredTopic(name="orders", owner="nobody"),
    ],
)
def test_an_entry_for_an_unknown_user_is_refused(
    registry: Platform, entry: RuleEntry | QuotaEntry | RegisteredTopic
) -> None:
    with pytest.raises(InvalidError, match="nobody"):
        registry.create(entry, BY, WHY)

    assert registry.read.page(entry.KIND).stored == ()


def test_rules_are_for_users_groups_with_members_and_all_users(registry: Platform) -> None:
    registry.create(UserEntry(name="alice", groups=("shops",)), BY, WHY)

    for principal in ("User:alice", "Group:shops", "User:*"):
        assert registry.create(reads(principal), BY, WHY).version == 1


def test_a_user_that_rules_name_stays_until_they_are_gone(registry: Platform) -> None:
    # Given a user with a rule and a quota
    registry.create(UserEntry(name="alice"), BY, WHY)
    registry.create(reads(), BY, WHY)
    registry.create(QuotaEntry(user="alice", topic="orders", producer_byte_rate=1000), BY, WHY)
    # When it is deleted alone
    with pytest.raises(StillUsedError, match="1 quotas, 1 rules"):
        registry.delete("users", "alice", 1, BY, WHY)
    # Then it stays; with all entries that name only it, it is deleted at once
    registry.delete_user("alice", 1, BY, WHY)
    assert [registry.read.page(kind).stored for kind in ("users", "rules", "quotas")] == [(), (), ()]


def test_an_issued_client_id_is_unique_and_belongs_to_one_user_and_its_topics(registry: Platform) -> None:
    # Given client ids of alice
    with pytest.raises(InvalidError, match="alice"):
        registry.create(registry.new_instance("alice", ["orders"]), BY, WHY)
    registry.apply([put(UserEntry(name="alice")), put(UserEntry(name="bob"))], BY, WHY)
    issued = [registry.create(registry.new_instance("alice", topics), BY, WHY) for topics in (["orders"], ["b", "a"])]
    names = [stored_entry.key for stored_entry in issued]
    assert len(set(names)) == 2
    assert [entry.topics for stored_entry in issued if isinstance(entry := stored_entry.entry, Instance)] == [
        ("orders",),
        ("a", "b"),
    ]
    # When another user requests one of them
    with pytest.raises(StaleVersionError):
        registry.create(Instance(name=names[0], user="bob", topics=("orders",)), BY, WHY)
    # Then it stays alice's, is found by its topic, and is deleted with her
    assert [
        stored_entry.key for stored_entry in registry.read.page("instances", mentioned={"topic": "orders"}).stored
    ] == names[:1]
    registry.delete_user("alice", 1, BY, WHY)
    assert registry.read.page("instances").stored == ()


@pytest.mark.parametrize("topics", [(), ("no topic",), tuple(f"t{n}" for n in range(MAX_TOPICS + 1))])
def test_a_client_id_is_not_issued_without_valid_topics(registry: Platform, topics: tuple[str, ...]) -> None:
    with pytest.raises(InvalidError, match="instances: topics"):
        registry.new_instance("alice", topics)


@pytest.mark.parametrize("user", ["alice", "HA#x#y", "ü", "CN=till,OU=shops", "x" * 255])
def test_forms_do_not_change_an_issued_client_id(user: str) -> None:
    name = new_name(user)

    assert name.isascii()
    assert len(name) <= 255
    assert instance_of(name, (*NAMED_FORMS, "{instance}-{number}")) == name
    assert identify(None, name).topic_hint is None
    assert Use(instance=name, how="produce", since="2026-01-01T00:00:00Z").family.endswith(name[-12:])


def test_a_user_and_its_rules_are_created_together_in_any_order(registry: Platform) -> None:
    made = registry.apply([put(reads()), put(UserEntry(name="alice"))], BY, WHY)

    assert [entry.version for entry in made] == [1, 1]


def test_one_refused_edit_undoes_all_edits_of_a_change(registry: Platform) -> None:
    registry.create(UserEntry(name="bob"), BY, WHY)
    before = counts(registry)

    with pytest.raises(StaleVersionError):
        registry.apply([put(UserEntry(name="alice")), put(reads()), put(UserEntry(name="bob"))], BY, WHY)
    with pytest.raises(InvalidError):
        registry.apply([put(UserEntry(name="alice")), put(reads("User:carol"))], BY, WHY)

    assert counts(registry) == before


def test_a_repeated_key_too_many_changes_and_none_are_refused(registry: Platform) -> None:
    with pytest.raises(InvalidError, match="twice"):
        registry.apply([put(UserEntry(name="alice")), Edit("users", "alice", None, 1)], BY, WHY)
    with pytest.raises(InvalidError, match="0 changes"):
        registry.apply([], BY, WHY)
    with pytest.raises(InvalidError, match=str(MAX_EDITS)):
        registry.apply([put(UserEntry(name="alice"))] * (MAX_EDITS + 1), BY, WHY)


@pytest.mark.parametrize("reason", ["", "   ", "x" * 1001, "line\nline", "\x00", "\ud800"])
def test_a_reason_is_one_line_that_people_can_read(registry: Platform, reason: str) -> None:
    with pytest.raises(InvalidError, match="reason"):
        registry.create(UserEntry(name="alice"), BY, reason)


@pytest.mark.parametrize("name", ["'; DROP TABLE changes; --", 'a"b', "100%", "a/b/../c", "Ünïcödé ☃", "$1", ":name"])
def test_a_name_with_special_characters_of_sql_and_paths_is_just_a_name(registry: Platform, name: str) -> None:
    registry.create(UserEntry(name=name, owner=name), BY, name)
    registry.create(reads(f"User:{name}"), BY, WHY)

    assert registry.read.get("users", name).entry == UserEntry(name=name, owner=name)
    assert len(registry.read.page("rules", mentioned={"user": name}).stored) == 1


def test_the_versions_of_a_type_of_settings_rise_with_every_change_and_deletion(registry: Platform) -> None:
    # When settings of two types are made, changed, and deleted
    first = registry.create(SettingEntry(type="user_rate", value=100), BY, WHY)
    registry.create(SettingEntry(type="address_rate", name="10.0.0.1", value=5), BY, WHY)
    registry.replace(SettingEntry(type="user_rate", value=200), 1, BY, WHY)
    assert registry.read.of_type("user_rate").version == 2
    registry.delete("settings", first.key, 2, BY, WHY)
    # Then each type has its own version, and a reader learns of the deletion
    assert registry.read.type_versions() == {"user_rate": 3, "address_rate": 1}
    assert registry.read.of_type("user_rate", known=2).values == {}
    assert registry.read.of_type("user_rate", known=3).values is None
    assert registry.read.of_type("address_rate").values is not None
    assert registry.read.of_type("queued_requests").version == 0


def test_pages_follow_one_another_and_are_filtered_by_references(registry: Platform) -> None:
    registry.apply(
        [put(UserEntry(name=f"user-{number:03}", owner=f"team-{number % 2}")) for number in range(25)], BY, WHY
    )

    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = registry.read.page("users", after, limit=4, mentioned={"owner": "team-1"})
        seen += [entry.key for entry in page.stored]
        after = page.after

    assert seen == [f"user-{number:03}" for number in range(1, 25, 2)]
    with pytest.raises(InvalidError, match="limit 0"):
        registry.read.page("users", limit=0)


def test_a_history_is_read_in_pages_back_to_its_beginning(registry: Platform) -> None:
    registry.create(UserEntry(name="alice"), BY, WHY)
    for version in range(1, 7):
        registry.replace(UserEntry(name="alice", owner=str(version)), version, BY, WHY)

    first = registry.read.history("users", "alice", limit=4)
    assert first.after is not None
    rest = registry.read.history("users", "alice", int(first.after), limit=4)

    assert [entry.version for entry in (*first.stored, *rest.stored)] == [7, 6, 5, 4, 3, 2, 1]
    assert rest.after is None


def test_times_increase_when_the_clock_stands_still_or_goes_back(url: str) -> None:
    times = iter([5_000, 5_000, 3_000, 9_000])
    Platform.open(url).database.close()
    registry = Platform(Database(url), lambda: next(times))

    made = [registry.create(UserEntry(name=name), BY, WHY).changed_us for name in "abcd"]

    assert made == [5_000, 5_001, 5_002, 9_000]
    registry.database.close()
