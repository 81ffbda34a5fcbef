"""What was submitted, which rows came from another store, and which were computed again."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "entries",
        sa.Column("id", sa.String(49), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("source", sa.LargeBinary, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_table(
        "imports",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("file", sa.String(64), nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_table(
        "reproductions",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("verdict", sa.Text, nullable=False),
        sa.Column("correct", sa.Integer, nullable=False),
        sa.Column("code_version", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_index("ix_reproductions_key", "reproductions", ["key"])
