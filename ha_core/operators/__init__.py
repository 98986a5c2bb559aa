"""Airflow operators, one idea per file. Each calls the executor once and writes its result to the task's log."""
