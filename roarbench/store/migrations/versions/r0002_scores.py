"""Scores of other libraries, in a table of their own."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Add the table of scores."""
    op.create_table(
        "scores",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("estimator", sa.Text, nullable=False),
        sa.Column("metric", sa.Text, nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
