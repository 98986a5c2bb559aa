"""The executor: runs the planner's steps on a store and Kafka admins, for the CLI and Airflow alike."""
