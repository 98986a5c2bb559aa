"""Parsers of foreign bytes, each fed for a minute by a fuzzer that follows their branches."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("atheris", reason="pip install atheris==2.3.0 (x86-64 only, so it is in no lock file)")
pytestmark = [pytest.mark.soak, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
FUZZED_S = int(os.environ.get("FUZZED_S", "60"))
PROPERTIES = (
    "tests.gateway.session.test_any_bytes:test_random_bytes",
    "tests.gateway.session.test_any_bytes:test_changed_bytes_in_requests_of_every_api_never_fail_a_session",
    "tests.wire.test_codec:test_random_bytes_are_read_or_refused_as_a_remote_error",
    "tests.wire.test_codec:test_a_damaged_body_is_read_or_refused_as_a_remote_error",
    "tests.wire.test_header_and_frames:test_a_random_request_header_is_read_refused_or_incomplete",
    "tests.wire.test_fetch:test_damaged_fetch_requests_are_scanned_or_refused",
    "tests.wire.test_fetch:test_a_damaged_fetch_response_has_the_same_outcome_in_any_chunks",
    "tests.wire.test_produce:test_a_damaged_produce_request_is_scanned_or_refused",
    "tests.wire.test_produce:test_a_damaged_produce_response_is_patched_or_refused",
    "tests.wire.test_templates:test_produce_matches_a_template_if_it_names_known_topics_and_decodes_alike",
    "tests.wire.test_templates:test_fetch_matches_a_template_if_it_names_known_topics_and_decodes_alike",
    "tests.wire.test_records:test_a_damaged_batch_is_walked_or_refused",
    "tests.wire.test_sasl:test_other_bytes_than_a_token_are_refused",
    "tests.wire.test_sasl_scram:test_parsers_raise_only_their_own_error",
    "tests.wire.test_sasl_oauth:test_parser_raises_only_its_own_error",
    "tests.wire.test_beginnings:test_misplaced_protocols_are_explained",
    "tests.store.test_quotas:test_any_node_is_a_quota_or_unreadable",
    "tests.store.test_quotas:test_any_note_names_a_path_or_nothing",
    "tests.datacache.test_nodes:test_arbitrary_bytes_are_read_as_no_commit_no_reload_and_no_record",
)
"""Module and property test."""


@pytest.mark.parametrize("name", PROPERTIES)
def test_parser_properties_hold_for_bytes_that_reach_new_branches(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", name, f"-max_total_time={FUZZED_S}", f"-artifact_prefix={tmp_path}/"]
    ran = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "Done" in ran.stderr
