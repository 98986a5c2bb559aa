"""Switchyard's control plane: model, planners, wire protocol, stores, Airflow classes and the `switchyard` command."""
