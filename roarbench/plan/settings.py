"""Define the settings of a call from the command line or from Python, which are read once and passed on whole."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from platformdirs import user_data_path

from roarbench.common.enums import Unit


def find_default_store() -> Path:
    """Return the folder in the variable ROARBENCH_STORE, or the user's data folder if the variable is not set."""
    return Path(os.environ.get("ROARBENCH_STORE") or user_data_path("roarbench"))


def find_default_database(store: Path) -> str:
    """Return the URL in the variable ROARBENCH_DB for the default store; empty, an SQLite file in it, for others."""
    return os.environ.get("ROARBENCH_DB", "") if store.absolute() == find_default_store().absolute() else ""


@dataclass(frozen=True)
class Settings:
    """Store, images, explained networks, and the part of a suite that a call runs or shows.

    Attributes:
        store: Folder of images, networks, rankings and results.
        db: URL of the results database; the store's own database if empty.
        limit: Number of images of each split; None for all.
        data: Folder of the images, or, for stored results, the beginning of their fingerprint; empty for the suite's
            own images.
        weights: Pretrained weights of each explained network: files, published names, or, for stored results,
            beginnings of the names in titles. If empty, networks are trained.
        trusted_network: SHA-256 of an imported network's file that may run.
        fill: Fill in place of the suite's own fills, if set.
        unit: Unit in place of the suite's own units, if set.
        estimators: Estimators to run or show, as users write them; all if None, controls alone if empty.
        protocol: Protocol to run or show; all, or the default of tables, if empty.
        seeds: Training runs per cell; the suite's number if None.
    """

    store: Path = field(default_factory=find_default_store)
    db: str = ""
    limit: int | None = None
    data: str = ""
    weights: tuple[str, ...] = ()
    trusted_network: str = ""
    fill: str = ""
    unit: Unit | None = None
    estimators: tuple[str, ...] | None = None
    protocol: str = ""
    seeds: int | None = None

    @property
    def database(self) -> str:
        """Return the URL of the database, ROARBENCH_DB for the default store; empty for the store's own database."""
        return self.db or find_default_database(self.store)

    @property
    def image_folder(self) -> Path | None:
        """Return the folder of the images; None for the suite's own images."""
        return Path(self.data) if self.data else None
