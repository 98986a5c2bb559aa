"""Reads Airflow connections, without telling what they hold when they cannot be read."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook


def read_connection(conn_id: str) -> Any:
    """The connection of that id.

    A password with a slash in a URI (`AIRFLOW_CONN_…`, secrets backends) ends the host there. Airflow's error then has
    the part of it before the slash as a port, or the whole URI; pages and logs show errors to all who may read them.

    :raises AirflowNotFoundException: there is none.
    :raises AirflowException: it cannot be read.
    """
    from ha_core.hooks.airflow_names import AirflowException, AirflowNotFoundException

    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException:
        raise
    except (AirflowException, ValueError) as error:
        raise AirflowException(
            f"The connection {conn_id} cannot be read ({type(error).__name__}). In a URI, characters such as / # @ : "
            "of user and password are written as %2F %23 %40 %3A; or write it as JSON."
        ) from None
