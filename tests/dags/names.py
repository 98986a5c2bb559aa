"""All DAGs, by what starts them."""

ASKED = (
    "switch",
    "mask_cluster",
    "unmask_cluster",
    "refresh_bindings",
    "migrate_from_fault",
    "give_up_cluster",
    "migrate_topics",
    "rollback_migration",
)
"""They change something, and run only when asked."""
UPKEEP = ("check_origins", "age_migrations", "settle_migrations")
"""They change something by the clock."""
SCHEDULED = ("record_facts", *UPKEEP)
DAGS = (*ASKED, *SCHEDULED)
