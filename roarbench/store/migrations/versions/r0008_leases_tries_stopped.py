"""Leases with a number, for every step; tries that a machine cut off, and what is not tried again."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"

_STOP_WHAT_FAILED = """
INSERT INTO stopped (key, what, data, reason, created)
SELECT key, '', '', reason, created FROM failures
WHERE id IN (SELECT max(id) FROM failures GROUP BY key) AND key NOT IN (SELECT key FROM results)
"""


def upgrade() -> None:
    """Make the tables; nobody works on a store while it is brought up to date, so that the claims are of the dead."""
    op.drop_table("claims")
    op.create_table(
        "leases",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("start", sa.Text, nullable=False),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("since", sa.DateTime, nullable=False),
        sa.Column("beat", sa.DateTime, nullable=False),
    )
    op.create_index("ix_leases_owner", "leases", ["owner"])
    op.create_table(
        "tries",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_index("ix_tries_key", "tries", ["key"])
    op.create_table(
        "stopped",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.execute(_STOP_WHAT_FAILED)
