"""All DAGs, by what starts them."""

ASKED = (
    "switch",
    "switch_cluster",
    "mask_cluster",
    "unmask_cluster",
    "refresh_bindings",
    "migrate_from_fault",
    "give_up_cluster",
    "migrate_topics",
    "rollback_migration",
    "link_mirror",
    "unlink_mirror",
    "throttle_mirror",
    "mirror_flows",
    "move_group",
    "rehearse",
    "reconcile_returned_cluster",
    "delete_topics",
)
"""They change something, and run only when asked."""
AT_ONCE = ("fail_over_cluster",)
"""They change something at once when asked: a dry run or an approval would cost seconds without service."""
PLATFORM = ("change_access",)
"""They change the platform, where no fence and no lock can be left, and run only when asked."""
LOOKING = ("verify_mirror",)
"""They run only when asked, and change nothing."""
UPKEEP = ("check_origins", "age_migrations", "settle_migrations", "sync_mirrors")
"""They change something by the clock."""
SCHEDULED = ("record_facts", "check_parity", *UPKEEP)
DAGS = (*ASKED, *AT_ONCE, *PLATFORM, *LOOKING, *SCHEDULED)
