"""`flows check` on files of MirrorMaker 2."""

from pathlib import Path

from ha_core.mirror_maker.flows_file import FlowsFile
from tests.cli.invoking import document

ROOT = Path(__file__).parents[2]

FILE = """
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
B->A.enabled = true
B->A.consumer.isolation.level = read_uncommitted
B->A.consumer.auto.offset.reset = latest
"""


def test_the_flows_of_a_file_are_listed_with_the_records_that_they_copy(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    flows = document("flows", "check", str(file))["flows"]
    assert [(flow["flow"], flow["records"], flow["begins"]) for flow in flows] == [
        ("A->B", "committed", "earliest"),
        ("B->A", "all", "latest"),
    ]


def test_the_sample_file_gives_two_flows_without_a_remark() -> None:
    found = FlowsFile(ROOT / "deploy" / "mirror-maker.properties").read()
    assert [flow.name for flow in found.flows] == ["primary->backup", "backup->primary"]
    assert found.remarks == ()
