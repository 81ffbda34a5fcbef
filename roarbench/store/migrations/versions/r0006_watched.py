"""Rows that somebody looked at while their trainings went on."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "watched",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("suite", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("limit", sa.Integer),
        sa.Column("given", sa.Text, nullable=False),
        sa.Column("retrain", sa.Text, nullable=False),
        sa.Column("estimator", sa.Text, nullable=False),
        sa.Column("looks", sa.Integer, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
