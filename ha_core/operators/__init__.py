"""Airflow operators, in files of one idea: each is one call of the executor, and its words in the task's log."""
