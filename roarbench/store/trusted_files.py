"""Whose Python files may make networks here: the owner's, and of others those whose hash the owner names.

A suite from somebody's file carries the source of its network wherever its results go. Nothing here imports torch.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from platformdirs import user_data_path

from roarbench.errors import CallerError, StoreError
from roarbench.files import convert_write_errors, write_whole
from roarbench.plan.suite import SuiteSpec
from roarbench.text import fit_on_one_line

_SHOWN = 160  # characters of a file's beginning


def trust_network(suite: SuiteSpec) -> None:
    """Remember, for this user alone, that a file of theirs named a suite's network; where that can be written."""
    for source in _sources(suite):
        with suppress(StoreError):
            _keep(_find_folder(), source)


def check_network(suite: SuiteSpec, named: str, store: Path) -> None:
    """Refuse to run a network's file that nobody on this machine named; keep the named one where it can be read.

    It is named by its SHA-256.

    Raises:
        CallerError: The suite has such a file.
        StoreError: The store's folder cannot be written.
    """
    for source in _sources(suite):
        digest = sha256(source.encode()).hexdigest()
        if named == digest or (_find_folder() / f"{digest}.py").exists():
            continue
        path = _keep(store / "imported-networks", source)
        what = f"{suite.described_network} with your rights, a file that came with imported results"
        begin = fit_on_one_line(" ¶ ".join(line for line in source.splitlines() if line.strip()), _SHOWN)
        seen = f"{suite.called} would run {what}: {begin}"
        raise CallerError(f"{seen} (whole: {path}); read it; next: the same command, --trust-network {digest}")


def _sources(suite: SuiteSpec) -> list[str]:
    """Return the files that make a suite's networks, each once."""
    found = [suite.network_source, *(each.source for each in suite.networks)]
    return [source for source in dict.fromkeys(found) if source]


def _find_folder() -> Path:
    """Return the folder of trusted files: in no store, since a store may come from elsewhere."""
    return user_data_path("roarbench") / "trusted-networks"


def _keep(folder: Path, source: str) -> Path:
    path = folder / f"{sha256(source.encode()).hexdigest()}.py"
    if not path.exists():
        with convert_write_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, lambda place: place.write_bytes(source.encode()), path.with_suffix(".partial"))
    return path
