"""The state of the installation for operators: clusters, groups, topics, problems, notices."""
