"""What operators are shown, by the command line and by Airflow alike: each thing once, as lines and tables."""
