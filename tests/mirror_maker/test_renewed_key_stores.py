"""A worker goes on with key stores that were renewed while it runs, without a cluster."""

from pathlib import Path
from typing import Any

import pytest

from ha_core.mirror_maker import worker
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.mirror_maker.membership import OnlyWorker
from stack.certificates import Authority

KEYS = """
clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->B.enabled = true
C->B.enabled = true
emit.heartbeats.enabled = false
A.security.protocol = SSL
A.ssl.truststore.type = PEM
A.ssl.truststore.location = {trusted}
A.ssl.keystore.type = PEM
A.ssl.keystore.location = {own}
"""


class StartedFlow:
    """:ivar certificates: by which it reaches its source."""

    def __init__(self, flow: Any, clusters: FlowClusters, *_: object, **__: object) -> None:
        self.flow = flow
        self.certificates = clusters.librdkafka(flow.source).get("ssl.certificate.pem")
        self.ended = False

    def stop(self) -> None:
        self.ended = True


def test_a_renewed_key_store_starts_the_flows_of_its_cluster_again_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(worker, "RunningFlow", StartedFlow)
    authority = Authority(tmp_path)
    own, file = tmp_path / "own.pem", tmp_path / "mm2.properties"
    first, second = authority.issue("alice").together.read_text(), authority.issue("alice-2").together.read_text()
    own.write_text(first)
    file.write_text(KEYS.format(trusted=authority.file, own=own))
    running = worker.Worker(FlowsFile(file).read, OnlyWorker())
    running._reread()
    flows: dict[str, Any] = dict(running.running)
    assert set(flows) == {"A->B", "C->B"}

    def look() -> None:
        running._reread()
        assert running.running["C->B"] is flows["C->B"]

    # Stores that say the same, or that are not written whole yet, change nothing
    for text in (first, second[: len(second) // 2], ""):
        own.write_text(text)
        look()
        assert running.running["A->B"] is flows["A->B"]
    own.unlink()
    look()
    assert not flows["A->B"].ended
    # A renewed one counts from the next look on
    own.write_text(second)
    look()
    assert flows["A->B"].ended
    begun: Any = running.running["A->B"]
    assert begun.certificates in second
    assert begun.certificates != flows["A->B"].certificates
    look()
    assert running.running["A->B"] is begun
    said = [record.getMessage() for record in caplog.records]
    assert sum("flows keep running as before" in text for text in said) == 3
