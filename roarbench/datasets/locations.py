"""Where a data set's files lie on this machine, and what identifies them."""

from pathlib import Path

from roarbench.datasets import FOLDERS, DatasetRecord, idx
from roarbench.datasets.image_files import ENDINGS, list_files_below
from roarbench.errors import DataError

BUNDLED = Path(__file__).parent / "bundled"
BUNDLED_TABLE = "table.parquet"
INSTALLED = dict.fromkeys(  # by Debian's dataset-fashion-mnist
    ("fashion-mnist", "fashion-mnist-1000"), Path("/usr/share/datasets/fashion-mnist")
)


def describe_source(record: DatasetRecord, data: Path | None) -> dict[str, object]:
    """Return the identity of the images' source, cheap to find: another source or a changed file changes it.

    DataError where `data` is no folder that can be read, the data set is generated, or it is not known where it lies.
    """
    if data is not None and record.generated:
        raise DataError(f"{record.name} is generated and reads no files; leave --data out")
    path = find_table_file(record, data) if record.tabular else find_images_folder(record, data)
    if path is None and record.hub:
        return {"kind": "hub", "path": record.hub, "revision": record.revision}
    if path is None:
        return {"kind": "generated", "recipe": record.revision, "seed": record.seed}
    files = _files(path, record)
    if data is not None:
        return {"kind": "local", "folder": str(path.resolve()), "files": files}
    kind = "bundled" if record.bundled else "installed"
    return {"kind": "own" if record.own else kind, "files": files}


def find_table_file(record: DatasetRecord, data: Path | None) -> Path:
    """Return where a table lies."""
    bundled = BUNDLED / record.bundled / BUNDLED_TABLE if record.bundled else Path(record.folder)
    path = data or bundled
    if not path.is_file():
        seen = "it is not known here where it lies" if path == Path() else f"{path} is not a file"
        raise DataError(f"the table of {record.name}: {seen}; write --data FILE, or --suite FILE.toml that names it")
    return path


def find_images_folder(record: DatasetRecord, data: Path | None) -> Path | None:
    """Return the folder that images are read from; None where they are the hub's or generated."""
    if data is not None:
        if not data.is_dir():
            what = "a file" if data.exists() else "missing"
            wanted = f"a folder with both splits of {record.name} as the hub has them"
            raise DataError(f"--data {data} is {what}; expected {wanted}")
        return data
    if not record.own:
        return BUNDLED / record.bundled if record.bundled else find_installed_folder(record)
    folder = Path(record.folder)
    if not record.folder or not folder.is_dir():
        seen = f"{folder} is no folder" if record.folder else "it is not known here where they lie"
        raise DataError(f"the images of {record.name}: {seen}; write --data DIR, or --suite FILE.toml that names them")
    return folder


def find_installed_folder(record: DatasetRecord) -> Path | None:
    """Return the folder in which the system's packages have put a data set; None where they have not."""
    folder = None if record.own else INSTALLED.get(record.name)
    return folder if folder and idx.has_idx(folder) else None


def _files(path: Path, record: DatasetRecord) -> list[list[object]]:
    """Return path, size and time of each file, of folders of images those of the images."""
    folder = path.parent if record.tabular else path
    endings = ENDINGS if record.own == FOLDERS else None
    try:
        found = [path] if record.tabular else list_files_below(path)
        paths = sorted(one for one in found if (endings is None or one.suffix.lower() in endings) and one.is_file())
        return [[str(one.relative_to(folder)), one.stat().st_size, one.stat().st_mtime_ns] for one in paths]
    except OSError as error:  # a file that has just gone
        raise DataError(f"cannot read {error.filename}: {error.strerror}; run again when nothing changes") from error
