"""Platforms of tests: on an SQLite file, and on a real PostgreSQL if it is installed."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import text

from ha_core.platform.database import Database
from ha_core.platform.platform import Platform
from tests.registry import postgresql
from tests.registry.rest import GATEWAY, OPERATOR, client_with


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    if why := postgresql.missing():
        pytest.skip(why)
    with postgresql.running() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/platform.db"
    server: str = request.getfixturevalue("postgresql_url")
    database = Database(server)
    with database.writing() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    database.migrate()
    database.close()
    return server


@pytest.fixture
def registry(url: str) -> Iterator[Platform]:
    with Platform.open(url) as opened:
        yield opened


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Platform]:
    """A platform on a file, also where PostgreSQL would show nothing else."""
    with Platform.open(f"sqlite:///{tmp_path}/platform.db") as registry:
        yield registry


@pytest.fixture
def operator(opened: Platform) -> TestClient:
    return client_with(opened, OPERATOR)


@pytest.fixture
def gateway(opened: Platform) -> TestClient:
    return client_with(opened, GATEWAY)
