"""Pages for operators, for the command line and Airflow alike: lines and tables."""
