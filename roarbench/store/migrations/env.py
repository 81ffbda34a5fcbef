"""Runs the migrations on the connection, and inside the transaction, that `roarbench.store.database` hands over."""

from alembic import context

from roarbench.store.schema import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    version_table=VERSION_TABLE,
    transactional_ddl=True,  # SQLite has it too; alembic does not expect it there
)
with context.begin_transaction():
    context.run_migrations()
