"""Seals of changes. Those that are there have none: no hash tells whether they were altered."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("changes", sa.Column("seal", sa.String(64)))
    op.add_column("clock", sa.Column("seal", sa.String(64)))


def downgrade() -> None:
    op.drop_column("clock", "seal")
    op.drop_column("changes", "seal")
