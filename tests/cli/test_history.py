"""`switchyard history`: the record of operations answers for itself, is exported, checked and pushed."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import ClassVar

import pytest
from rich.console import Console

from ha_core.cli import output
from ha_core.model import Cluster, Operation
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


def test_an_operation_answers_the_ten_questions_of_an_audit(store: MemoryStore) -> None:
    name = audited(store)

    page = shown("history", name)

    for answer in (
        "1 who asked: alice (https://airflow.example/dags/switch/runs/r, DAG bundle 4f2a)",
        "2 who approved: bob",
        "3 when: asked 2026-11-21T09:58:00.000Z; approved 2026-11-21T09:59:00.000Z; begun 2026-11-21T10:00:00Z; ended "
        "2026-11-21T10:00:05.000Z",
        "4 why: INC-7",
        "5 what was to move: user:ann, topic:orders, east → west, planned, 1 topic, 1 group",
        "at 2026-11-21T10:00:00.000Z, on revision 6: 1 warning",
        "rate 81.5 records/s (two looks); expected fence: about 54 ms",
        "lag of groups, records: audit not known, billing 40",
        "Its copy lacks 12 records.",
        "7 what moved: 1 partition and 1 group, in revision 7",
        "1234",
        "8 how long each step: cut_over 80 ms",
        "9 cost for clients: fence 54.3 ms; 5 requests refused, to be sent again; not known of gateways gw-2",
        "61.2",
        "10 result: cut over and verified",
        "`switchyard mirror list`",
        "`switchyard switch user:ann topic:orders --from west --to east --reason …`",
    ):
        assert answer in page
    found = document("history", name)["answers"]
    assert (found["asked_by"], found["approved_by"], found["approval"]) == ("alice", "bob", True)
    assert found["checked"][0]["findings"][0]["number"] == 12
    assert found["checked"][0]["lag_records"] == {"audit": None, "billing": 40}
    assert found["cuts"] == [
        {"topic": "orders", "partition": 0, "cut": 1234, "origin": "east", "target": "west", "hole": 0}
    ]
    assert found["cost"]["users"] == [{"user": "ann", "refused": 5, "longest_ms": 61.2}]


def test_an_operation_of_an_earlier_version_says_what_it_does_not_know(store: MemoryStore) -> None:
    # Given an operation whose author is one text, and that kept neither judgement nor cost for users
    by = "alice, approved by bob (airflow:switch/r)"
    operation = a_switch(id="switch-1", state="succeeded", ended="2026-11-21T10:00:05Z", by=by, revision=3)
    store.create_operation(operation, [])
    # When
    page, found = shown("history", "switch-1"), document("history", "switch-1")["answers"]
    # Then
    assert "1 who asked: alice" in page
    assert "2 who approved: bob" in page
    assert "approved not known" in page
    assert "6 what was checked: not known" in page
    assert "fence not known; requests refused and longest wait of each user not known" in page
    assert (found["checked"], found["cost"]["users"], found["cost"]["fenced_ms"]) == (None, None, None)


@pytest.mark.parametrize(
    ("by", "asked", "approved"),
    [
        ("cli:joe@ops1", "cli:joe@ops1", False),
        ("alice (airflow:switch/r)", "alice", False),
        ("the clock, approved by bob (airflow:age/r)", None, True),
        ("airflow:age/r", None, False),
    ],
)
def test_authors_of_earlier_versions_are_taken_apart(
    store: MemoryStore, by: str, asked: str | None, approved: bool
) -> None:
    store.create_operation(a_switch(id="switch-1", by=by), [])

    found = document("history", "switch-1")["answers"]

    assert (found["asked_by"], found["approval"]) == (asked, approved)


def test_the_key_verified_of_earlier_versions_stays_beside_the_name_that_says_what_it_means(store: MemoryStore) -> None:
    name = audited(store)

    for shown_operation in (document("history", name)["operation"], document("history")["operations"][0]):
        evidence = shown_operation["evidence"]
        assert (evidence["ended_mirrors_verified"], evidence["verified"]) == (True, True)


def test_ids_are_whole_on_a_narrow_terminal(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    name = audited(store)
    monkeypatch.setattr(output, "WIDTH_OF_NO_TERMINAL", 100)

    assert name in shown("history")
    assert Console().width


def test_operations_are_found_by_user_topic_cluster_and_author(store: MemoryStore) -> None:
    name = audited(store)
    ended(store, "switch-20261122-100000-ffff", by="cli:joe@ops1")

    def found(*words: str) -> list[str]:
        return [one["id"] for one in document("history", *words)["operations"]]

    assert found("--user", "ann") == [name]
    assert found("--topic", "orders", "--by", "BOB") == [name]
    assert found("--by", "joe") == ["switch-20261122-100000-ffff"]
    assert len(found("--cluster", "west")) == 2
    assert found("--cluster", "south") == []
    assert found("--limit", "1") == ["switch-20261122-100000-ffff"]
    assert "older ones: switchyard history --topic orders --before" in shown(
        "history", "--topic", "orders", "--limit", "1"
    )


def test_an_export_is_a_line_of_cloudevents_for_each_operation_and_equal_each_time(store: MemoryStore) -> None:
    name = audited(store)
    ended(store, "switch-20261122-100000-ffff", at="2026-11-22T10:00:05.000Z")
    store.create_operation(a_switch(id="switch-20261123-100000-aaaa"), ["topic:z"])  # still runs

    written = lines()

    assert written == lines()
    one, two = map(json.loads, written)
    assert {key: one[key] for key in ("specversion", "id", "subject", "type", "time", "datacontenttype")} == {
        "specversion": "1.0",
        "id": name,
        "subject": name,
        "type": "switchyard.operation.succeeded",
        "time": "2026-11-21T10:00:05.000Z",
        "datacontenttype": "application/json",
    }
    assert one["source"] == f"/switchyard/{store.cluster_id()}"
    assert (one["sequence"], two["sequence"]) == ("00000000000000000001", "00000000000000000002")
    assert [row["step"] for row in one["data"]["history"]] == ["start", "cut_over", "clients"]
    assert [json.loads(line)["id"] for line in lines("--since", "2026-11-22")] == [two["id"]]
    assert [json.loads(line)["id"] for line in lines("--until", "2026-11-22T00:00:00Z")] == [name]
    assert run("history", "export", "--since", "yesterday")[0] == 2
    assert run("history", "export", "--since", "2026-11-22", "--until", "2026-11-21")[0] == 2


def test_an_export_is_checked_offline(store: MemoryStore, tmp_path: Path) -> None:
    # Given an export, and the fingerprint that a check printed
    audited(store)
    for n in range(2, 5):
        ended(store, f"switch-20261122-10000{n}-ffff", at=f"2026-11-22T10:00:0{n}.000Z")
    fingerprint = document("history", "verify")["newest"]
    file = tmp_path / "export.ndjson"
    whole = lines()
    file.write_text("\n".join(whole) + "\n")
    # Then it has no fault, nor has its end alone
    code, report = run("history", "verify", str(file), "--expect", fingerprint)
    assert (code, report["checked"], report["faults"]) == (0, 4, [])
    file.write_text("\n".join(whole[2:]) + "\n")
    code, report = run("history", "verify", str(file))
    assert (code, report["checked"], report["anchor"].partition(":")[0]) == (0, 2, "2")
    # And a changed, a removed and an exchanged line are named
    for tampered, kind in (
        ([whole[0].replace("INC-7", "INC-8"), *whole[1:]], "changed"),
        ([whole[0], *whole[2:]], "removed"),
        ([whole[1], whole[0], *whole[2:]], "reordered"),
    ):
        file.write_text("\n".join(tampered) + "\n")
        code, report = run("history", "verify", str(file))
        assert code == 6
        assert kind in {fault["kind"] for fault in report["faults"]}
    # And an export without the fingerprint
    file.write_text("\n".join(whole[:2]) + "\n")
    assert run("history", "verify", str(file), "--expect", fingerprint)[0] == 6


@pytest.mark.parametrize("text", ["", "{", '{"id": 1}', '{"id":"a","data":{"operation":[],"history":{}}}'])
def test_a_file_that_is_no_export_is_refused_with_its_line(store: MemoryStore, tmp_path: Path, text: str) -> None:
    file = tmp_path / "export.ndjson"
    file.write_text(text)

    code, found = run("history", "verify", str(file))

    assert code == 2
    assert str(file) in found["error"]
    assert run("history", "verify", str(tmp_path / "none"))[0] == 2
    assert run("history", "verify", "--expect", "7")[0] == 2


def test_a_planted_operation_and_those_of_earlier_versions_have_no_seal(store: MemoryStore) -> None:
    # Given two operations of an earlier version, then one with a seal
    old = a_switch(id="switch-1", state="succeeded", ended="2026-01-01T00:00:00Z")
    for name in ("switch-1", "switch-2"):
        store.create_operation(old.model_copy(update={"id": name}), [])
    ended(store, "switch-3")
    code, report = run("history", "verify")
    assert (code, report["earlier"], report["faults"]) == (0, 2, [])
    # When one is planted
    later = a_switch(id="planted", state="succeeded", ended="2026-12-01T00:00:00Z")
    store.create_operation(later, [])
    # Then it is named
    code, report = run("history", "verify")
    assert code == 6
    assert [(fault["kind"], fault["about"]) for fault in report["faults"]] == [("unsealed", "planted")]
    # And all of them can be sealed as they are
    assert document("history", "seal")["sealed"] == ["switch-1", "switch-2", "planted"]
    code, report = run("history", "verify")
    assert (code, report["earlier"], report["checked"]) == (0, 0, 4)


def test_a_trimmed_history_verifies_from_its_anchor_and_its_export_has_the_rest(
    store: MemoryStore, tmp_path: Path
) -> None:
    # Given three operations and their export
    for n in range(1, 4):
        ended(store, f"switch-{n}", at=f"2026-11-2{n}T10:00:00.000Z")
    file, reason = tmp_path / "export.ndjson", ("--reason", "a year is over")
    words = ("history", "trim", "--before", "2026-11-23", "--export", str(file), "--yes", *reason)
    file.write_text("\n".join(lines("--since", "2026-11-22")) + "\n")
    # When the export lacks the oldest, or is changed, nothing is removed
    assert run(*words)[0] == 2
    file.write_text("\n".join(line.replace("a test", "a fake") for line in lines()) + "\n")
    assert run(*words)[0] == 2
    assert store.read(Operation, "switch-1") is not None
    # When it is whole
    file.write_text("\n".join(lines()) + "\n")
    code, _ = run(*words)
    # Then the two oldest are gone, and the removal is in the history
    assert code == 0
    assert store.read(Operation, "switch-1") is None
    operations = document("history")["operations"]
    assert {(one["kind"], one["reason"]) for one in operations} >= {("trim-history", "a year is over")}
    code, report = run("history", "verify")
    assert (code, report["checked"], report["anchor"].partition(":")[0]) == (0, 2, "2")
    assert run(*words)[1] == {"removed": 0}


def test_a_strict_history_lets_nothing_begin_that_could_not_be_sealed(store: MemoryStore) -> None:
    # Given a history that is strict
    assert run("history", "strict", "on", "--reason", "audit")[0] == 0
    assert run("history", "strict", "on", "--reason", "audit")[1]["changed"] is False
    assert document("history", "verify")["strict"] is True
    assert run("clusters", "add", "south", "--bootstrap", "127.0.0.1:2", "--unprobed")[0] == 0
    # When the newest seal is damaged
    store.plant("/seals", b"{")
    # Then nothing begins, and the text names the way out
    code, found = run("clusters", "add", "north", "--bootstrap", "127.0.0.1:2", "--unprobed")
    assert code == 2
    assert "switchyard history strict off" in found["error"]
    assert "north" not in store.load().clusters
    # And after that it does
    assert run("history", "strict", "off", "--reason", "an outage")[0] == 0
    assert run("clusters", "add", "north", "--bootstrap", "127.0.0.1:2", "--unprobed")[0] == 0
    assert run("history", "verify")[0] == 6
    assert run("history", "strict", "maybe", "--reason", "r")[0] == 2


class _Received(BaseHTTPRequestHandler):
    statuses: ClassVar[list[int]]
    """Statuses of the next answers; then 204."""
    bodies: ClassVar[list[bytes]]
    headers_seen: ClassVar[list[dict[str, str]]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        status = self.statuses.pop(0) if self.statuses else 204
        if status < 300:
            self.bodies.append(body)
        self.headers_seen.append({**self.headers, "path": self.path})
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def receiver() -> Iterator[tuple[str, type[_Received]]]:
    class Received(_Received):
        """Own lists."""

    Received.statuses, Received.bodies, Received.headers_seen = [], [], []
    server = HTTPServer(("127.0.0.1", 0), Received)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/in?key=s3cret", Received
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ha_core.operations.audit.pushing.RETRY_AFTER_S", (0.0, 0.0))


@pytest.mark.usefixtures("no_pauses")
def test_ended_operations_are_pushed_in_order_and_each_push_goes_on_where_the_last_one_ended(
    store: MemoryStore, receiver: tuple[str, type[_Received]], tmp_path: Path
) -> None:
    # Given three operations, and a receiver that fails for a while
    url, received = receiver
    token = tmp_path / "token"
    token.write_text("t0ken\n")
    for n in range(1, 4):
        ended(store, f"switch-{n}")
    received.statuses[:] = [204, 503, 429, 503]
    # When they are pushed
    code, report = run("history", "push", "--to", url, "--token-file", str(token))
    # Then the push ends after its repetitions, and names no secret
    assert (code, report["pushed"], report["left"]) == (1, 1, 2)
    assert "status 503" in report["error"]
    assert "s3cret" not in json.dumps(report)
    # And the next one has the rest
    code, report = run("history", "push", "--to", url, "--token-file", str(token))
    assert (code, report["pushed"], report["left"], report["error"]) == (0, 2, 0, "")
    assert [json.loads(body)["id"] for body in received.bodies] == ["switch-1", "switch-2", "switch-3"]
    assert [body.decode() for body in received.bodies] == lines()
    seen = received.headers_seen[0]
    assert seen["Content-Type"] == "application/cloudevents+json; charset=utf-8"
    assert (seen["Authorization"], seen["path"]) == ("Bearer t0ken", "/in?key=s3cret")
    assert run("history", "push", "--to", url)[1]["pushed"] == 0


@pytest.mark.usefixtures("no_pauses")
@pytest.mark.parametrize(("status", "asked"), [(302, 1), (400, 1), (500, 3)])
def test_a_redirect_is_not_followed_and_a_refusal_that_stands_is_not_repeated(
    store: MemoryStore, receiver: tuple[str, type[_Received]], status: int, asked: int
) -> None:
    url, received = receiver
    ended(store, "switch-1")
    received.statuses[:] = [status] * 10

    code, report = run("history", "push", "--to", url)

    assert (code, report["pushed"]) == (1, 0)
    assert f"status {status}" in report["error"]
    assert len(received.headers_seen) == asked


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("ftp://example/", "https://HOST"),
        ("https:///path", "https://HOST"),
        ("https://host:99999/", "https://HOST"),
        ("https://user:pass@127.0.0.1/", "--token-file"),
        ("https://127.0.0.1/a b", "spaces"),
        ("https://169.254.169.254/latest/meta-data", "no receiver of the history"),
        ("https://[::ffff:169.254.169.254]/", "no receiver of the history"),
        ("https://[fe80::1]/", "no receiver of the history"),
        ("https://0.0.0.0/", "no receiver of the history"),
        ("http://10.0.0.1/", "https only"),
    ],
)
def test_a_receiver_where_none_may_be_is_refused(store: MemoryStore, url: str, why: str) -> None:
    ended(store, "switch-1")

    code, found = run("history", "push", "--to", url)

    assert code == 2
    assert why in found["error"]
    assert "pass" not in found["error"].replace("password", "")
