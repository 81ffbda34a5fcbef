"""Suites from somebody's file, so that their results can be shown without it."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "suites",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
