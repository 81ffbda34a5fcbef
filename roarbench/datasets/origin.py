"""Where a data set's files lie on this machine, and what identifies them."""

from pathlib import Path

from roarbench.datasets import FOLDERS, DatasetRecord, folders
from roarbench.errors import DataError

BUNDLED = Path(__file__).parent / "bundled"
BUNDLED_TABLE = "table.parquet"


def describe_source(record: DatasetRecord, data: Path | None) -> dict[str, object]:
    """Return the identity of the images' source, cheap to find: another source or a changed file changes it.

    DataError where `data` is no folder that can be read, the data set is generated, or it is not known where it lies.
    """
    if data is not None and record.generated:
        raise DataError(f"{record.name} is generated and reads no files; leave --data out")
    if record.tabular:
        return _table_source(record, data)
    if data is not None and not data.is_dir():
        what = "a file" if data.exists() else "missing"
        wanted = f"a folder with both splits of {record.name} as the hub has them"
        raise DataError(f"--data {data} is {what}; expected {wanted}")
    if data is not None:
        return {"kind": "local", "folder": str(data.resolve()), "files": _files(data, record)}
    if record.own:
        return {"kind": "own", "files": _files(own_folder(record), record)}
    if record.bundled:
        return {"kind": "bundled", "files": _files(BUNDLED / record.bundled, record)}
    if record.hub:
        return {"kind": "hub", "path": record.hub, "revision": record.revision}
    return {"kind": "generated", "recipe": record.revision, "seed": record.seed}


def _table_source(record: DatasetRecord, data: Path | None) -> dict[str, object]:
    """Return the same for a table, which is one file."""
    path = table_file(record, data)
    files = [[path.name, path.stat().st_size, path.stat().st_mtime_ns]]
    if data is not None:
        return {"kind": "local", "folder": str(path.resolve()), "files": files}
    return {"kind": "own" if record.own else "bundled", "files": files}


def table_file(record: DatasetRecord, data: Path | None) -> Path:
    """Return where a table lies."""
    bundled = BUNDLED / record.bundled / BUNDLED_TABLE if record.bundled else Path(record.folder)
    path = data or bundled
    if not path.is_file():
        seen = "it is not known here where it lies" if path == Path() else f"{path} is not a file"
        raise DataError(f"the table of {record.name}: {seen}; write --data FILE, or --suite FILE.toml that names it")
    return path


def own_folder(record: DatasetRecord) -> Path:
    """Return where the images lie that a suite's file names."""
    folder = Path(record.folder)
    if not record.folder or not folder.is_dir():
        seen = f"{folder} is no folder" if record.folder else "it is not known here where they lie"
        raise DataError(f"the images of {record.name}: {seen}; write --data DIR, or --suite FILE.toml that names them")
    return folder


def _files(folder: Path, record: DatasetRecord) -> list[list[object]]:
    """Return path, size and time of each file, of folders of images those of the images."""
    endings = folders.ENDINGS if record.own == FOLDERS else None
    try:
        found = (path for path in folder.rglob("*") if endings is None or path.suffix.lower() in endings)
        paths = sorted(path for path in found if path.is_file())
        return [[str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
    except OSError as error:  # a file that has just gone
        raise DataError(f"cannot read {error.filename}: {error.strerror}; run again when nothing changes") from error
