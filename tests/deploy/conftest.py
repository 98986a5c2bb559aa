import subprocess
from pathlib import Path

import pytest

from tests.deploy.compose import ROOT


@pytest.fixture(scope="session")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of deploy/secrets.sh."""
    folder = tmp_path_factory.mktemp("secrets")
    subprocess.run(["sh", ROOT / "deploy" / "secrets.sh", folder], check=True, capture_output=True)
    return folder
