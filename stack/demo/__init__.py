"""`switchyard demo`: live clients go from one real cluster to another and back, started through Airflow."""
