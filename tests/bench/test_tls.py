"""The benchmark of TLS: its tables, and a run of all sides."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.tls import Shaken, shaken_row
from bench.tls_sides import PROXIES, installed


def shaken(*cpu_ms: float) -> list[Shaken]:
    return [Shaken(400.0, one, 0.25, "any") for one in cpu_ms]


def test_cpu_is_compared_with_the_peer_round_by_round() -> None:
    # Given a second round in which everything took ten times as long
    found = {"gateway": shaken(1.5, 15.0), "haproxy": shaken(1.0, 10.0)}

    assert shaken_row("full", "gateway", found, "haproxy") == ("full", "gateway", "400", "8.2", "1.50", "25 %")


def test_without_a_peer_there_are_figures_and_no_ratios() -> None:
    assert shaken_row("resumed", "gateway", {"gateway": shaken(0.5)}, None) == (
        "resumed",
        "gateway",
        "400",
        "0.50",
        "-",
        "25 %",
    )


def test_a_proxy_that_is_not_installed_is_reported_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    said: list[str] = []

    assert installed(said.append) == []
    assert [text.partition(" ")[0] for text in said] == list(PROXIES)


@pytest.mark.stack
@pytest.mark.long("bench", "ha_core/tls")
@pytest.mark.timeout(400)
def test_every_side_is_measured(tmp_path: Path) -> None:
    # Given the installed proxies
    sides = ["gateway", *installed(lambda _text: None)]
    # When everything is measured for a moment
    file = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench", "tls", "--quick", "--json", str(file)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=350,
        check=False,
    )
    # Then each has carried records, and resumed sessions of its clients
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())["tls"]["figures"]
    for what in ("produce", "fetch"):
        assert list(figures["loads"]["throughput"][what]) == ["no TLS", "broker", *sides]
    for side in sides:
        (full,), (resumed,) = (figures["handshakes"][how][side] for how in ("full", "resumed"))
        assert full["resumed"] == 0.0
        assert resumed["resumed"] > 0.9
