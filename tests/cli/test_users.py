"""`users entry`: its output is valid in a users file."""

import pytest
import yaml
from typer.testing import CliRunner

from gateway.authentication.users import accounts
from ha_core.cli.app import build
from ha_core.cli.exits import BAD_INPUT
from ha_core.wire.sasl_scram import fits


@pytest.mark.parametrize("user", ["alice", "team: a", "1001", 'x"y'])
def test_an_entry_for_a_password_from_standard_input_fits_that_password(user: str) -> None:
    ended = CliRunner().invoke(build(), ["users", "entry", user], input="won: der#\nsomething else\n")
    assert ended.exit_code == 0, ended.stderr
    assert "won: der#" not in ended.stdout
    account = accounts(yaml.safe_load(ended.stdout))[user]
    assert all(fits(mechanism, key, "won: der#") for mechanism, key in account.keys.items())


@pytest.mark.parametrize(("given", "iterations"), [("", "4096"), ("x", "1")])
def test_an_entry_that_no_client_could_use_is_refused(given: str, iterations: str) -> None:
    ended = CliRunner().invoke(build(), ["users", "entry", "alice", "--iterations", iterations], input=f"{given}\n")
    assert ended.exit_code == BAD_INPUT
    assert "SCRAM key" in ended.stderr
