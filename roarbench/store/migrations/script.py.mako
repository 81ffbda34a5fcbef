"""${message}."""

import sqlalchemy as sa
from alembic import op

revision = "${up_revision}"
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Bring the schema from the revision before to this one."""
    ${upgrades if upgrades else "pass"}
