"""Find the files of a data set on this machine, identify them, and download files from the Hugging Face hub."""

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from functools import partial
from pathlib import Path

from roarbench.common.errors import DataError
from roarbench.common.files import LARGE, compute_sha256, convert_read_errors
from roarbench.common.identity import hash_value
from roarbench.datasets.catalogue import FOLDERS, DatasetRecord
from roarbench.datasets.image_folders import has_idx_files, has_image_suffix, list_all_files_below
from roarbench.datasets.label_files import list_label_files

BUNDLED = Path(__file__).parent / "bundled"
BUNDLED_TABLE = "table.parquet"
SYSTEM_PACKAGE_FOLDERS = {  # folder of Debian's dataset-fashion-mnist, by the repository on the hub
    "zalando-datasets/fashion_mnist": Path("/usr/share/datasets/fashion-mnist")
}
_MOST_HASHED = 10_000  # files whose contents every run compares, if they are small together
HUB_TIMEOUT = 5.0  # seconds; without this limit, the hub's library retries for half a minute


def make_source_identity(record: DatasetRecord, data: Path | None) -> dict[str, object]:
    """Return values that identify the source of the images; for local files, their names, sizes and times.

    Raises DataError if `data` cannot be read or is given for a generated data set, or if the location of the images is
    unknown.
    """
    if data is not None and record.generated:
        raise DataError(f"{record.name} is generated and not read from files; leave --data out")
    path = find_local_table_file(record, data) if record.tabular else find_images_folder(record, data)
    if path is None and record.hub:
        return {"kind": "hub", "path": record.hub, "revision": record.revision}
    if path is None:
        return {"kind": "generated", "recipe": record.revision, "seed": record.seed}
    files = _list_files_with_size_and_time(path, record)
    if data is not None:
        return {"kind": "local", "folder": str(path.resolve()), "files": files}
    kind = "bundled" if record.bundled else "installed"
    return {"kind": "own" if record.own else kind, "files": files}


def find_local_table_file(record: DatasetRecord, data: Path | None) -> Path:
    """Return the path of a table's file; raise DataError if the path is unknown or the file is missing."""
    bundled = BUNDLED / record.bundled / BUNDLED_TABLE if record.bundled else Path(record.folder)
    path = data or bundled
    if not path.is_file():
        seen = "its location on this machine is unknown" if path == Path() else f"{path} is not a file"
        remedy = "add --data FILE, or use a suite's file that names the table"
        raise DataError(f"the table of {record.name}: {seen}; {remedy}")
    return path


def find_images_folder(record: DatasetRecord, data: Path | None) -> Path | None:
    """Return the local folder of the images; None if they must be downloaded from the hub or generated."""
    if data is not None:
        if not data.is_dir():
            state = "a file" if data.exists() else "missing"
            wanted = f"a folder with both splits of {record.name} in the layout of the hub"
            raise DataError(f"--data {data} is {state}; expected {wanted}")
        return data
    if not record.own:
        return BUNDLED / record.bundled if record.bundled else find_system_package_folder(record)
    folder = Path(record.folder)
    if not record.folder or not folder.is_dir():
        seen = f"{folder} is not a folder" if record.folder else "their location on this machine is unknown"
        remedy = "add --data DIR, or use a suite's file that names the folder"
        raise DataError(f"the images of {record.name}: {seen}; {remedy}")
    return folder


def find_system_package_folder(record: DatasetRecord) -> Path | None:
    """Return the folder in which a system package installed a data set; None if there is none."""
    folder = SYSTEM_PACKAGE_FOLDERS.get(record.hub)
    return folder if folder and has_idx_files(folder) else None


def _list_files_with_size_and_time(path: Path, record: DatasetRecord) -> list[list[object]]:
    """Return path, size and modification time of each file; in class folders, only of image files.

    Label files and lists of images have a checksum in place of the time, as their content decides labels and splits.
    """
    folder = path.parent if record.tabular else path
    # for example a file that was just deleted
    with convert_read_errors(path, "run again when no program changes it", DataError):
        candidates = [path] if record.tabular else list_all_files_below(path)
        wanted = (file for file in candidates if record.own != FOLDERS or has_image_suffix(file))
        files = sorted(file for file in wanted if file.is_file())
        listed: list[list[object]] = [
            [str(file.relative_to(folder)), file.stat().st_size, file.stat().st_mtime_ns] for file in files
        ]
        if record.own == FOLDERS:
            lists = [path / name for name in dict.fromkeys(record.split_names.values()) if (path / name).is_file()]
            texts = dict.fromkeys([*list_label_files(path, record.label_files), *lists])
            listed += [[str(file.relative_to(folder)), file.stat().st_size, compute_sha256(file)] for file in texts]
        return listed


def hash_users_files(record: DatasetRecord, data: Path | None) -> str:
    """Return a hash of the contents of a user's files; empty for other sources, and for files too large to read often.

    Editors, rsync and archives can leave size and time of an edited file as they were.
    """
    path = find_local_table_file(record, data) if record.tabular else find_images_folder(record, data)
    if path is None or not (data or record.own):
        return ""
    folder, files = path.parent if record.tabular else path, _list_files_with_size_and_time(path, record)
    if len(files) > _MOST_HASHED or sum(int(str(size)) for _, size, _ in files) >= LARGE:
        return ""
    return hash_value([compute_sha256(folder / str(name)) for name, *_ in files])


def download_dataset(record: DatasetRecord) -> Path:
    """Download the files of both splits to the cache of the hub's library, and return the folder."""
    import huggingface_hub
    from datasets.config import HF_HUB_OFFLINE

    with _convert_hub_errors(record):
        if not HF_HUB_OFFLINE:  # a first request, which has a timeout, detects an unreachable hub in seconds
            _list_hub_files(record)
        fetch = partial(huggingface_hub.snapshot_download, repo_type="dataset", revision=record.revision)
        return Path(fetch(record.hub, allow_patterns=list(_make_split_patterns(record).values())))


def _make_split_patterns(record: DatasetRecord) -> dict[str, str]:
    folder = record.config or "data"
    return {split: f"{folder}/{split}-*.parquet" for split in (record.train_split, record.test_split)}


def _list_hub_files(record: DatasetRecord) -> list[str]:
    import huggingface_hub

    info = huggingface_hub.HfApi().dataset_info(record.hub, revision=record.revision, timeout=HUB_TIMEOUT)
    return sorted(file.rfilename for file in info.siblings or [])


def download_lazily(record: DatasetRecord) -> dict[str, Iterator[Path]]:
    """Return a dict from each split to an iterator over its files, which downloads each file when it is requested."""
    from datasets.config import HF_HUB_OFFLINE
    from huggingface_hub.constants import HF_HUB_CACHE
    from huggingface_hub.file_download import repo_folder_name

    with _convert_hub_errors(record):
        if HF_HUB_OFFLINE:
            name = repo_folder_name(repo_id=record.hub, repo_type="dataset")
            folder = Path(HF_HUB_CACHE) / name / "snapshots" / record.revision
            if not folder.is_dir():
                raise FileNotFoundError(f"offline, and {folder} is missing")
            names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.parquet"))
        else:
            names = _list_hub_files(record)
    patterns = _make_split_patterns(record).items()
    by_split = {split: [name for name in names if fnmatch(name, pattern)] for split, pattern in patterns}
    return {split: _download_files(record, files) for split, files in by_split.items() if files}


def _download_files(record: DatasetRecord, names: list[str]) -> Iterator[Path]:
    import huggingface_hub

    for name in names:
        with _convert_hub_errors(record):
            file = huggingface_hub.hf_hub_download(record.hub, name, repo_type="dataset", revision=record.revision)
        yield Path(file)


@contextmanager
def _convert_hub_errors(record: DatasetRecord) -> Iterator[None]:
    from huggingface_hub import get_token
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    try:
        yield
    except (GatedRepoError, RepositoryNotFoundError) as error:
        page = f"https://huggingface.co/datasets/{record.hub}"
        remedy = f"accept its terms at {page} and run `hf auth login` or set HF_TOKEN; or use --data DIR"
        raise DataError(f"the hub denies access to {record.hub} ({describe_hub_error(error)}); {remedy}") from error
    except Exception as error:  # the library raises many exception types, some private
        seen = f"cannot reach {record.hub} on the Hugging Face hub ({describe_hub_error(error)})"
        if record.gated and not get_token():
            seen += "; the data set needs a token: run `hf auth login` or set HF_TOKEN"
        raise DataError(f"{seen}; name a local copy with --data DIR") from error


def describe_hub_error(error: Exception) -> str:
    """Return an error's type and the first line of its message."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
