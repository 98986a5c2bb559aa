"""Run by Alembic, on the connection and in the transaction of the caller."""

from alembic import context

from ha_core.platform.tables import METADATA

context.configure(connection=context.config.attributes["connection"], target_metadata=METADATA, transactional_ddl=True)
context.run_migrations()
