"""`flows declare`, `withdraw` and `declared`, on a store in memory. Live clusters: tests/mirror_maker."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ha_core.cli.exits import BAD_INPUT
from ha_core.flows.errors import FlowError
from ha_core.mirror_maker.declared_flows import DeclaredFlows
from ha_core.model import FlowDeclaration, FlowWorker
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.single import begin_single
from stack.memory_store import MemoryStore
from tests.cli.invoking import document, run, seeded, shown, use

FLOWS = """
# password = of an old line
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
AS_YAML = "clusters: [A, B]\nA: {bootstrap.servers: 'a:9092'}\nB.bootstrap.servers: b:9092\nA->B: {enabled: true}\n"
UNPROBED = ("--reason", "a test", "--unprobed")


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    made = seeded()
    use(made, monkeypatch)
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mm2.properties"
    path.write_text(FLOWS)
    return path


def stored(store: MemoryStore, name: str = "all") -> FlowDeclaration | None:
    found = store.read(FlowDeclaration, name)
    return None if found is None else found[0]


def test_a_declaration_is_stored_with_its_reason_and_each_change_is_an_operation(
    store: MemoryStore, file: Path
) -> None:
    code, first = run("flows", "declare", "all", str(file), *UNPROBED)
    assert (code, first["result"], first["declaration"]["revision"]) == (0, "succeeded", 1)
    assert first["declaration"]["flows"] == ["A->B"]
    assert run("flows", "declare", "all", str(file), *UNPROBED)[1]["changed"] is False
    file.write_text(FLOWS + "B->A.enabled = true\n")
    assert document("flows", "declare", "all", str(file), *UNPROBED)["declaration"]["flows"] == ["A->B", "B->A"]
    (listed,) = document("flows", "declared")["declarations"]
    assert (listed["name"], listed["revision"], listed["reason"], listed["workers"]) == ("all", 2, "a test", 0)
    history = document("history")["operations"]
    assert [one["kind"] for one in history] == ["declare-flows", "declare-flows"]
    assert "password" not in shown("flows", "declared", "all")


def test_yaml_and_properties_with_the_same_keys_declare_the_same(
    store: MemoryStore, file: Path, tmp_path: Path
) -> None:
    yaml = tmp_path / "flows.yaml"
    yaml.write_text(AS_YAML)
    assert run("flows", "declare", "all", str(yaml), *UNPROBED)[0] == 0
    assert document("flows", "declare", "all", str(file), *UNPROBED)["changed"] is False


def test_a_dry_run_stores_nothing(store: MemoryStore, file: Path) -> None:
    assert run("flows", "declare", "all", str(file), "--dry-run", *UNPROBED)[0] == 0
    assert stored(store) is None


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("all/..", FLOWS, "cannot name a declaration"),
        ("all", FLOWS + "A.ssl.key.password = s3cret\n", "A.ssl.key.password"),
        ("all", FLOWS + "A->B.transforms = x\n", "transforms"),
        ("all", "clusters = A\n", "A.bootstrap.servers"),
        ("all", FLOWS + "x" * (1 << 18), "characters"),
    ],
)
def test_a_declaration_that_no_worker_could_run_is_refused(
    store: MemoryStore, file: Path, name: str, text: str, named: str
) -> None:
    file.write_text(text)
    code, refused = run("flows", "declare", name, str(file), *UNPROBED)
    assert code == BAD_INPUT
    assert named in refused["error"]
    assert "s3cret" not in refused["error"]
    assert stored(store) is None


def test_a_flow_may_be_in_only_one_declaration(store: MemoryStore, file: Path) -> None:
    assert run("flows", "declare", "all", str(file), *UNPROBED)[0] == 0
    code, refused = run("flows", "declare", "again", str(file), *UNPROBED)
    assert code == BAD_INPUT
    assert "all already declares A->B" in refused["error"]


def test_clusters_that_do_not_answer_are_a_remark(store: MemoryStore, file: Path) -> None:
    file.write_text(FLOWS.replace("a:9092", "127.0.0.1:1").replace("b:9092", "127.0.0.1:2"))
    code, done = run("flows", "declare", "all", str(file), "--reason", "a test")
    assert code == 0, done
    assert len(done["declaration"]["remarks"]) == 2


def test_a_worker_follows_its_declaration_through_a_withdrawal_and_a_new_declaration(
    store: MemoryStore, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed: Any = DeclaredFlows(store, "all")
    with pytest.raises(FlowError, match="There is no declaration all"):
        followed.read()
    provider = "config.providers = env\nconfig.providers.env.class = EnvVarConfigProvider\n"
    file.write_text(FLOWS + provider + "topics = ${env:FLOW_TOPICS}\n")
    assert run("flows", "declare", "all", str(file), *UNPROBED)[0] == 0
    with pytest.raises(FlowError, match="has no value here"):
        followed.read()
    monkeypatch.setenv("FLOW_TOPICS", "orders")
    first = followed.read()
    assert first.flows[0].topics.include.texts == ("orders",)
    assert followed.read() is first
    monkeypatch.setenv("FLOW_TOPICS", "payments")
    assert followed.read() is not first
    assert run("flows", "withdraw", "all", "--reason", "a test")[0] == 0
    assert followed.read().flows == ()
    assert followed.read() is followed.read()
    assert run("flows", "declare", "all", str(file), *UNPROBED)[0] == 0
    assert [flow.name for flow in followed.read().flows] == ["A->B"]


def test_a_withdrawal_names_the_declarations_that_exist(store: MemoryStore, file: Path) -> None:
    assert run("flows", "declare", "all", str(file), *UNPROBED)[0] == 0
    code, refused = run("flows", "withdraw", "others", "--reason", "a test")
    assert code == BAD_INPUT
    assert "Existing declarations: all" in refused["error"]


def test_a_group_move_whose_process_died_ends_as_failed_and_says_to_run_it_again(store: MemoryStore) -> None:
    with Environment(store=store.client(), by="a dead process", session_timeout_s=0.5) as dead:
        operation = begin_single(dead, "move-group", "a test", ["group:billing"]).operation.id
        code, ended = run("resume", operation)
        assert code != 0
        assert ended["result"] == "failed"
        assert "some offsets may be committed in the target. Run it again" in ended["error"]
        assert not dead.store.locks()


def test_a_command_whose_like_was_killed_ends_that_one_and_goes_on(store: MemoryStore, file: Path) -> None:
    """No gateway runs that would do it."""
    for words in (("declare", "all", str(file), *UNPROBED), ("withdraw", "all", "--reason", "a test")):
        with Environment(store=store.client(), by="a dead process", session_timeout_s=0.5, now=long_ago) as dead:
            begin_single(dead, "declare-flows", "a test", ["flows:all"])
        code, done = run("flows", *words)
        assert (code, done["result"]) == (0, "succeeded"), done
    assert [one["state"] for one in document("history")["operations"]].count("undone") == 2
    assert not store.locks()


def long_ago() -> str:
    return "2026-01-01T00:00:00+00:00"


def test_a_move_of_a_group_by_a_flow_that_no_declaration_has_names_the_files_of_its_workers(store: MemoryStore) -> None:
    worker = FlowWorker(
        id="w", host="copier-1", pid=7, since=long_ago(), file="/etc/mm2.properties", flows=("A->B@1>2",)
    )
    with closing(store.client().register(worker)):
        code, refused = run("flows", "move-group", "billing", "B->A", "--reason", "a test")
    assert code == BAD_INPUT
    assert "Workers run it by /etc/mm2.properties on copier-1. Give --file FILE" in refused["error"]
    code, refused = run("flows", "move-group", "billing", "B->A", "--reason", "a test")
    assert "No declaration has B->A or its other direction. Give --file FILE" in refused["error"]
