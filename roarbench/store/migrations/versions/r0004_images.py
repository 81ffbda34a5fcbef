"""Where images came from: the suite's own source, or somebody's folder."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "images",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("limit", sa.Integer),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("files", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
