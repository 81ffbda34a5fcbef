"""Record the network files that this user trusts, and refuse to execute a suite's network file that is not trusted.

The record of a suite contains the source of its network, and imported results bring this record.
"""

from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from platformdirs import user_data_path

from roarbench.common.errors import CallerError, StoreError
from roarbench.common.files import convert_write_errors, write_atomically
from roarbench.common.text import fit_on_one_line
from roarbench.plan.suite import SuiteSpec

_SHOWN_CHARACTERS = 160  # of the file's beginning


def record_trusted_network(suite: SuiteSpec) -> None:
    """Record that this user trusts a suite's network files; if the record cannot be written, do nothing."""
    for source in _list_network_sources(suite):
        with suppress(StoreError):
            _save_source(_find_trusted_networks_folder(), source)


def refuse_untrusted_network(suite: SuiteSpec, trusted_digest: str, store: Path) -> None:
    """Raise CallerError if this user does not trust a suite's network file; save a copy to read in the store's folder.

    `trusted_digest` is the SHA-256 of a file that the user trusts, or empty.
    """
    for source in _list_network_sources(suite):
        digest = sha256(source.encode()).hexdigest()
        if trusted_digest == digest or (_find_trusted_networks_folder() / f"{digest}.py").exists():
            continue
        path = _save_source(store / "imported-networks", source)
        danger = f"{suite.architecture_names} with your rights, a file that came with imported results"
        begin = fit_on_one_line(" ¶ ".join(line for line in source.splitlines() if line.strip()), _SHOWN_CHARACTERS)
        seen = f"{suite.name_in_commands} would run {danger}: {begin}"
        raise CallerError(f"{seen} (all of it: {path}); read it, then repeat the command with --trust-network {digest}")


def _list_network_sources(suite: SuiteSpec) -> list[str]:
    sources = [suite.network_source, *(network.source for network in suite.networks)]
    return [source for source in dict.fromkeys(sources) if source]


def _find_trusted_networks_folder() -> Path:
    """Return the folder of trusted files, which is outside of stores, because a store may come from another user."""
    return user_data_path("roarbench") / "trusted-networks"


def _save_source(folder: Path, source: str) -> Path:
    path = folder / f"{sha256(source.encode()).hexdigest()}.py"
    if not path.exists():
        with convert_write_errors(path):
            folder.mkdir(parents=True, exist_ok=True)
            write_atomically(path, lambda temporary: temporary.write_bytes(source.encode()))
    return path
