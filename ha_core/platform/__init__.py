"""The platform: who exists, what each may do and use, and how gateways are set; with who changed it, when and why."""

DATABASE_VARIABLE = "SWITCHYARD_DATABASE"
"""URL of the database, for commands, and in Airflow where there is no connection."""
