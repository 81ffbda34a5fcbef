"""What `validate` found of entries, and the shares of noisy copies that imports bring."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    """Make the table; the next `run --submission` notes what it finds."""
    op.create_table(
        "remarks",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("value", sa.JSON, nullable=False),
        sa.Column("created", sa.DateTime, nullable=False),
    )
