"""Checksums of references and rankings, so that a folder that holds others is refused."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    """Make the table; the next command on the store notes what its folder holds."""
    op.create_table(
        "checksums",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
        sa.Column("folder", sa.String(32), nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
