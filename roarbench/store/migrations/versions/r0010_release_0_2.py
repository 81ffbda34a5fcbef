"""The tables that release 0.2 adds to those of 0.1: leases of every step take the place of claims on runs."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0003"

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
    op.create_table(
        "forgotten",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("row", sa.JSON, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("code_version", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_index("ix_forgotten_key", "forgotten", ["key"])
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
    op.create_table(
        "suites",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("folder", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_table(
        "checksums",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("what", sa.Text, nullable=False),
        sa.Column("checksum", sa.String(64), nullable=False),
        sa.Column("folder", sa.String(32), nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_table(
        "remarks",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.JSON, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
