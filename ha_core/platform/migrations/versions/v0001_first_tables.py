"""Changes, the newest of each key, references, versions of types of settings, and the clock."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    def name(length: int) -> sa.types.TypeEngine[str]:
        return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")

    op.create_table(
        "changes",
        sa.Column("kind", name(32), primary_key=True),
        sa.Column("changed_us", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", name(255), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("value", sa.Text),
        sa.Column("by", sa.String(255), nullable=False),
        sa.Column("reason", sa.String(1000), nullable=False),
    )
    op.create_index("changes_of_key", "changes", ["kind", "key", "changed_us"])
    op.create_table(
        "entries",
        sa.Column("kind", name(32), primary_key=True),
        sa.Column("key", name(255), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("changed_us", sa.BigInteger, nullable=False),
        sa.Column("live", sa.Boolean, nullable=False),
    )
    op.create_table(
        "mentions",
        sa.Column("kind", name(32), primary_key=True),
        sa.Column("key", name(255), primary_key=True),
        sa.Column("role", name(32), primary_key=True),
        sa.Column("name", name(255), primary_key=True),
        sa.Column("needed", sa.Boolean, nullable=False),
    )
    op.create_index("mentioned", "mentions", ["role", "name", "kind", "key"])
    op.create_table(
        "type_versions",
        sa.Column("kind", name(32), primary_key=True),
        sa.Column("type", name(32), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
    )
    clock = op.create_table(
        "clock", sa.Column("id", sa.Integer, primary_key=True), sa.Column("last_us", sa.BigInteger, nullable=False)
    )
    op.bulk_insert(clock, [{"id": 1, "last_us": 0}])


def downgrade() -> None:
    for table in ("clock", "type_versions", "mentions", "entries", "changes"):
        op.drop_table(table)
