"""Results, failures and claims.

A migration is written once and does not follow the code: it spells out its tables.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Make the tables of the first release."""
    op.create_table(
        "results",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("estimator", sa.Text, nullable=False),
        sa.Column("order", sa.Text, nullable=False),
        sa.Column("retrain", sa.Text, nullable=False),
        sa.Column("fill", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("t", sa.Double, nullable=False),
        sa.Column("seed", sa.Integer, nullable=False),
        sa.Column("recipe", sa.Text, nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("estimator_fingerprint", sa.Text, nullable=False),
        sa.Column("reference", sa.Text, nullable=False),
        sa.Column("correct", sa.Integer, nullable=False),
        sa.Column("total", sa.Integer, nullable=False),
        sa.Column("bits", sa.LargeBinary, nullable=False),
        sa.Column("probability", sa.LargeBinary),
        sa.Column("rankings", sa.Text, nullable=False),
        sa.Column("smoothness", sa.Double),
        sa.Column("weights", sa.Text, nullable=False),
        sa.Column("loss", sa.Double),
        sa.Column("seconds", sa.Double, nullable=False),
        sa.Column("code_version", sa.Text, nullable=False),
        sa.Column("versions", sa.JSON, nullable=False),
        sa.Column("hardware", sa.JSON, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_index("ix_results_dataset_model", "results", ["dataset", "model"])
    op.create_index("ix_results_created", "results", ["created"])
    op.create_table(
        "failures",
        sa.Column("id", sa.Integer, primary_key=True),
        sa.Column("key", sa.String(32), nullable=False),
        sa.Column("record", sa.Text, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("code_version", sa.Text, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
    op.create_index("ix_failures_key", "failures", ["key"])
    op.create_table(
        "claims",
        sa.Column("key", sa.String(32), primary_key=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("pid", sa.Integer, nullable=False),
        sa.Column("start", sa.Text, nullable=False),
        sa.Column("since", sa.DateTime, nullable=False),
        sa.Column("beat", sa.DateTime, nullable=False),
    )
