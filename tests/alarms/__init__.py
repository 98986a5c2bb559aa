"""The alarms and dashboards of `deploy`, on metrics of real faults."""
