"""Fetches the files of a data set from the Hugging Face hub into its cache, all at once or in turn."""

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from roarbench.datasets import DatasetRecord
from roarbench.errors import DataError

HUB_TIMEOUT = 5.0  # seconds; the library alone retries for half a minute before it gives up


def download_dataset(record: DatasetRecord) -> Path:
    """Fetch the files of both splits into the hub's cache, which keeps what was fetched before."""
    import huggingface_hub
    from datasets.config import HF_HUB_OFFLINE

    with _report_hub_errors(record):
        if not HF_HUB_OFFLINE:  # one quick request, so that an unreachable hub is known in seconds
            _list_hub(record)
        fetch = partial(huggingface_hub.snapshot_download, repo_type="dataset", revision=record.revision)
        return Path(fetch(record.hub, allow_patterns=list(_patterns(record).values())))


def _patterns(record: DatasetRecord) -> dict[str, str]:
    folder = record.config or "data"
    return {split: f"{folder}/{split}-*.parquet" for split in (record.train_split, record.test_split)}


def _list_hub(record: DatasetRecord) -> list[str]:
    import huggingface_hub

    about = huggingface_hub.HfApi().dataset_info(record.hub, revision=record.revision, timeout=HUB_TIMEOUT)
    return sorted(file.rfilename for file in about.siblings or [])


def _list_cache(record: DatasetRecord) -> list[str]:
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    name = repo_folder_name(repo_id=record.hub, repo_type="dataset")
    folder = Path(HF_HUB_CACHE) / name / "snapshots" / record.revision
    if not folder.is_dir():
        raise FileNotFoundError(f"offline, and nothing in {folder}")
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))


def fetch_in_turn(record: DatasetRecord) -> dict[str, Iterator[Path]]:
    """Yield the files of each split; a file is fetched when it is asked for."""
    from datasets.config import HF_HUB_OFFLINE

    with _report_hub_errors(record):
        names = _list_cache(record) if HF_HUB_OFFLINE else _list_hub(record)
    found = {split: [name for name in names if fnmatch(name, like)] for split, like in _patterns(record).items()}
    return {split: _fetch(record, files) for split, files in found.items() if files}


def _fetch(record: DatasetRecord, names: list[str]) -> Iterator[Path]:
    import huggingface_hub

    for name in names:
        with _report_hub_errors(record):
            file = huggingface_hub.hf_hub_download(record.hub, name, repo_type="dataset", revision=record.revision)
        yield Path(file)


@contextmanager
def _report_hub_errors(record: DatasetRecord) -> Iterator[None]:
    """Say in one line why the hub gives nothing."""
    from huggingface_hub import get_token
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        yield
    except (GatedRepoError, RepositoryNotFoundError) as error:
        page = f"https://huggingface.co/datasets/{record.hub}"
        ask = f"accept its terms at {page}, then `hf auth login` or set HF_TOKEN, or give a local copy with --data DIR"
        raise DataError(f"the hub does not open {record.hub} to you ({shorten_error(error)}); {ask}") from error
    except Exception as error:  # the library raises a dozen kinds, some of them private
        token = "; it needs a token: `hf auth login` or HF_TOKEN" if record.gated and not get_token() else ""
        seen = f"cannot reach {record.hub} on the Hugging Face hub ({shorten_error(error)}){token}"
        raise DataError(f"{seen}; give a local copy with --data DIR") from error


def shorten_error(error: Exception) -> str:
    """Return an error's kind and the first line of what it says."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
