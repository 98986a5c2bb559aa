"""An audit from an exported file alone: operations, changes of the platform, and what single operations changed."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.model import Cluster, HistoryEntry, SingleOperation
from ha_core.model.evidence import SingleEvidence
from ha_core.operations.audit.answers import answers
from ha_core.operations.clusters.masking import mask_cluster
from ha_core.operations.engine.environment import Environment
from ha_core.plan.absence.masking import Affected
from stack.memory_store import MemoryStore
from tests.kit.operations import a_switch

from .invoking import document, run, seeded, shown, use
from .recorded import audited, ended, lines

EAST, WEST = (Cluster(name=name, bootstrap="127.0.0.1:1", default=name == "east") for name in ("east", "west"))


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    seeded_store = seeded(EAST, WEST)
    use(seeded_store, monkeypatch)
    return seeded_store


def exported(folder: Path, *words: str) -> str:
    file = folder / "export.ndjson"
    file.write_text("\n".join(lines(*words)) + "\n")
    return str(file)


def test_an_exported_operation_answers_as_the_stored_one_does_after_it_was_removed(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # Given an export, and what the history answers
    name = audited(store)
    stored, of_store = shown("history", name), document("history", name)
    file = exported(tmp_path)
    # When ZooKeeper has nothing of it any more
    use(MemoryStore(), monkeypatch)
    # Then the file answers alike, and says how to check it
    assert document("history", name, "--file", file)["answers"] == of_store["answers"]
    of_file = shown("history", name, "--file", file)
    assert of_file.partition("   next:")[0] == stored.partition("   next:")[0]
    assert f"switchyard history verify {file}" in of_file
    assert [one["id"] for one in document("history", "--file", file)["operations"]] == [name]
    assert document("history", "--file", file, "--by", "carol")["operations"] == []
    code, found = run("history", "switch-none", "--file", file)
    assert (code, "has no operation switch-none" in found["error"]) == (2, True)


def test_changes_of_the_platform_are_exported_on_demand_and_checked(store: MemoryStore, tmp_path: Path) -> None:
    # Given an ended operation, and a user with a right
    ended(store, "switch-1")
    database = ("--database", f"sqlite:///{tmp_path}/platform.db")
    assert run("users", "create", "erin", "--owner", "shop", "--reason", "INC-7", *database)[0] == 0
    right = ("--principal", "User:erin", "--type", "topic", "--operation", "write", "--name", "orders")
    assert run("rights", "grant", *right, "--reason", "INC-8", *database)[0] == 0
    # When all of it is exported
    file = exported(tmp_path, *database)
    # Then the file says who changed what, when and why
    changes = document("history", "--file", file)["changes"]
    assert [(one["kind"], one["reason"]) for one in changes] == [("rules", "INC-8"), ("users", "INC-7")]
    assert all(one["by"].startswith("cli:") and one["changed"] for one in changes)
    assert "INC-8" in shown("history", "--file", file, "--topic", "orders")
    assert document("history", "--file", file, "--topic", "bills")["changes"] == []
    # And a check follows the seals of both
    code, report = run("history", "verify", file)
    assert (code, report["checked"], report["changes"]["checked"], report["faults"]) == (0, 1, 2, [])
    assert "2 sealed changes of the platform" in shown("history", "verify", file)
    # And the time bounds hold for both
    assert document("history", "--file", exported(tmp_path, *database, "--since", "2026-01-01"))["changes"] == changes
    later = CliRunner().invoke(build(), ["history", "export", "--ndjson", *database, "--since", "2999-01-01"])
    assert later.stdout == ""


def test_a_right_that_was_taken_away_is_named_by_what_it_was(store: MemoryStore, tmp_path: Path) -> None:
    database = ("--database", f"sqlite:///{tmp_path}/platform.db")
    assert run("users", "create", "erin", "--reason", "INC-7", *database)[0] == 0
    quota = ("--user", "erin", "--reason", "INC-7", *database)
    assert run("quotas", "set", *quota, "--consumer-byte-rate", "50000")[0] == 0

    told = shown("quotas", "delete", *quota)

    assert "is deleted, it was user erin, consumer_byte_rate 50000" in " ".join(told.split())
    ended(store, "switch-1")
    newest = document("history", "--file", exported(tmp_path, *database))["changes"][0]
    assert (newest["value"], newest["before"]["user"]) == (None, "erin")


def test_a_password_key_is_in_no_export(store: MemoryStore, tmp_path: Path) -> None:
    database = ("--database", f"sqlite:///{tmp_path}/platform.db")
    secret = tmp_path / "password"
    secret.write_text("s3cret-enough\n")
    assert run("users", "create", "erin", "--reason", "INC-7", "--password-file", str(secret), *database)[0] == 0

    text = "\n".join(lines(*database))

    assert "erin" in text
    assert "stored_key" not in text
    assert "salt" not in text


def test_a_mask_keeps_who_stalled_and_does_not_claim_that_no_client_was_refused(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    depends = Affected(written=("orders",), groups=("billing",), users={"ann": ("topic orders",)})
    monkeypatch.setattr("ha_core.operations.clusters.masking._dependents", lambda *_: depends)
    environment = Environment(store=store.client(), by="cli:joe@ops1", session_timeout_s=0.5)

    report = mask_cluster(environment, "east", "INC-9", force=True).report

    assert report is not None
    page = shown("history", report.operation)
    for answer in (
        "1 topic is written there and nowhere else, so no client can write: orders.",
        "7 what moved: no partition; this was changed in revision",
        '"written": {"count": 1, "names": ["orders"]}',
        "force: true",
        "fail at once until `switchyard unmask east`, and are not counted",
        "`switchyard unmask east`",
    ):
        assert answer in " ".join(page.split())
    assert "no client was refused" not in page


def test_an_operation_that_was_taken_back_says_by_whom_and_why(store: MemoryStore) -> None:
    operation = a_switch(id="switch-1", state="planned", by="alice (airflow:switch/r)")
    store.create_operation(operation, ["topic:orders"])

    assert run("undo", "switch-1", "--reason", "INC-3 is off")[0] == 0

    (result,) = [line for line in shown("history", "switch-1").splitlines() if line.startswith("10 result")]
    assert result.startswith("10 result: taken back by cli:")
    assert result.endswith(": asked for by the operator: INC-3 is off")


def test_a_reconciled_cluster_says_what_was_lost_in_each_partition(store: MemoryStore) -> None:
    tails = [[0, "counted", 90, 97, 7, 512, None], [1, "gone", 40, None, None, None, None]]
    operation = SingleOperation(
        id="reconcile-1",
        kind="reconcile",
        state="running",
        by="cli:joe@ops1",
        reason="INC-9",
        started="2026-11-21T10:00:00Z",
        evidence=SingleEvidence(about=("topic:orders",)),
    )
    epoch = store.create_operation(operation, ["topic:orders"])
    detail = {"cluster": "east", "tails": tails, "mirror": True, "reason": "INC-9"}
    at = "2026-11-21T10:00:04.000Z"
    store.append_history(
        "reconcile-1", epoch, HistoryEntry(at=at, epoch=epoch, step="reconcile", outcome="done", detail=detail)
    )

    page = [" ".join(line.split()) for line in shown("history", "reconcile-1").splitlines()]

    assert "partition result copied below log end records lost bytes lost" in page
    assert "0 counted 90 97 7 512" in page
    assert "1 gone 40 not known not known not known" in page
    assert "cluster: east" in page


@pytest.mark.parametrize(
    ("mode", "detail", "sentence"),
    [
        ("planned", {"origin": "unchanged"}, "the log ends of east were read after the cut and lay where the cut"),
        ("planned", {"origin": "not asked: it is away"}, "the logs of east were not read after the cut: it is away"),
        ("forced", {"origin": "not asked"}, "east was taken for dead, so its logs were not read"),
    ],
)
def test_verified_says_what_was_looked_at(mode: str, detail: dict[str, str], sentence: str) -> None:
    operation = a_switch(id="switch-1", state="succeeded", ended="2026-11-21T10:00:05Z", revision=7)
    request = operation.request.changed(mode=mode)
    entry = HistoryEntry(at="2026-11-21T10:00:04Z", epoch=0, step="verify", outcome="done", detail=detail)

    found = answers(operation.changed(request=request), [entry])

    assert found.verified[0] == "every live gateway served revision 7 or a later one"
    assert found.verified[1].startswith(sentence)
    assert answers(operation, []).verified == ()
