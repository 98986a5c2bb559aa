"""The platform: users, rights, quotas and settings of gateways, with the author, time and reason of every change."""

DATABASE_VARIABLE = "SWITCHYARD_DATABASE"
"""URL of the database, for commands, and for Airflow if there is no connection."""
