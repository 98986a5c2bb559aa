"""The platform's database as an Airflow connection."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from ha_core.platform import DATABASE_VARIABLE

if TYPE_CHECKING:
    from ha_core.platform.platform import Platform


class PlatformHook(BaseHook):  # type: ignore[misc]  # airflow is not typed here
    """Connection type `switchyard_platform`: a PostgreSQL server by host, port, login, password and schema (the name of
    the database), or extra `sqlite_file`. Without the connection, `SWITCHYARD_DATABASE` has the URL.
    """

    conn_name_attr = "platform_conn_id"
    default_conn_name = "switchyard_platform"
    conn_type = "switchyard_platform"
    hook_name = "Switchyard platform (users, rights, quotas)"

    def __init__(self, platform_conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.platform_conn_id = platform_conn_id

    def get_conn(self, creates: bool = True) -> Platform:
        """Open the database. Close it, or use it in `with`.

        :param creates: create an SQLite file that does not exist.
        :raises PlatformError: the database is away, has other tables, or is not configured.
        """
        from ha_core.platform.platform import Platform

        return Platform.open(self._url(), creates)

    def test_connection(self) -> tuple[bool, str]:
        from ha_core.platform.errors import PlatformError

        try:
            with self.get_conn(creates=False) as registry:
                changed = [kind for kind, newest_us in registry.read.newest_us().items() if newest_us]
        except (PlatformError, ValueError) as error:
            return False, str(error)
        return True, f"It has {', '.join(changed) or 'nothing yet'}."

    def _url(self) -> str:
        from ha_core.hooks.airflow_names import AirflowException
        from ha_core.platform.errors import InvalidError

        try:
            found = self.get_connection(self.platform_conn_id)
        except AirflowException:
            if url := os.environ.get(DATABASE_VARIABLE):
                return url
            # No default file on the worker: rights granted in it would not be enforced by any gateway.
            raise InvalidError(
                f"the platform's database is not configured: make the connection {self.platform_conn_id}, or set "
                f"{DATABASE_VARIABLE}"
            ) from None
        return _url(found)


def _url(found: Any) -> str:
    from sqlalchemy.engine import URL

    file = found.extra_dejson.get("sqlite_file")
    if file:
        return URL.create("sqlite", database=str(file)).render_as_string(hide_password=False)
    url = URL.create("postgresql", found.login, found.password, found.host or "127.0.0.1", found.port, found.schema)
    return url.render_as_string(hide_password=False)
