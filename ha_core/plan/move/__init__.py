"""The move with a fence: its revisions, and the topics, groups and bindings that it takes along."""
