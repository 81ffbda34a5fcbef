"""Cache the app's first page, so that the app shows it at once while the store is read again."""

import json
import time
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple
from urllib.parse import unquote

from platformdirs import user_cache_path

from roarbench.common.files import write_atomically
from roarbench.common.identity import hash_value
from roarbench.store.run_result import read_code_version

SELECTION_VARIABLE = "ROARBENCH_BOARD"  # environment variable with the selection for the app's script, as JSON
# `boards_ready` is set when this process has built the first board of every suite, and `first_page_shown` when it has
# shown a page to a visitor
boards_ready, first_page_shown = Event(), Event()
SETTLED = 2.0  # seconds; file times of the file system FAT have steps of two seconds, the coarsest of all
_SQLITE = "sqlite:///"
# data set and explained network whose boards are shown, as for `analysis.load_results.matches_selection`; empty for all
Selection = tuple[str, str]
ALL: Selection = ("", "")
_written: dict[Path, tuple[str, str, "Page"]] = {}  # from a cache file to the stamp, state and page last written to it


class ShownStore(NamedTuple):
    """The results that an app shows: URL of the database, folder of the store, and selection."""

    url: str
    folder: str
    data: str = ""
    reference: str = ""


class Page(NamedTuple):
    """A page: its title, its HTML, and files to download."""

    title: str
    html: str
    files: dict[str, str] = {}


def make_shown_store(url: str, store: Path, data: str = "", reference: str = "") -> ShownStore:
    """Make the record of the results that an app shows, with absolute paths."""
    head, mark, path = url.partition(_SQLITE)
    anywhere = f"{mark}{Path(path).resolve()}" if mark and not head else url
    data = str(Path(data).resolve()) if data and Path(data).is_dir() else data
    return ShownStore(anywhere, str(store.resolve()), data, reference)


def read_cached_page(shown: ShownStore) -> Page | None:
    """Return the cached page; None if there is none, if the store or the code has changed, or if `boards_ready` is set.

    If the database's files have not changed since the page was made, the database is not opened, and SQLAlchemy and
    NumPy are not imported.

    Raises:
        StoreError: The store cannot be opened.
    """
    if boards_ready.is_set():
        return None
    try:
        cached = json.loads(find_cache_file(shown).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if cached.get("code") != read_code_version():
        return None
    page = Page(**cached["page"])
    if cached["files"] and cached["files"] == read_sqlite_stamp(shown.url):
        return page
    from roarbench.store.results import ResultsStore

    with ResultsStore.open(shown.url, read_only=True) as results:
        return page if cached["state"] == results.read_change_stamp() else None


def cache_page(shown: ShownStore, sqlite_stamp: str, state: str, page: Page) -> None:
    """Cache a page, unless the user's cache cannot be written or the code has uncommitted changes.

    `sqlite_stamp` must have been read before `state`.
    """
    code, path = read_code_version(), find_cache_file(shown)
    if code.endswith("+dirty"):
        return
    with suppress(OSError):
        if _written.get(path) == (sqlite_stamp, state, page) and path.exists():
            return
        text = json.dumps({"code": code, "files": sqlite_stamp, "state": state, "page": page._asdict()})
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary: temporary.write_text(text, "utf-8"))
        _written[path] = sqlite_stamp, state, page


def find_cache_file(shown: ShownStore) -> Path:
    """Return the path of the cache file, in the user's own cache, because the store may belong to another user."""
    return user_cache_path("roarbench") / "board" / f"{hash_value(list(shown))}.json"


def read_sqlite_stamp(url: str) -> str:
    """Return the inode, size and time of an SQLite database's files as text, which every later write changes.

    The text is empty for another kind of database, and for `SETTLED` seconds after a write, because a second write in
    this time could leave size and time unchanged.
    """
    head, mark, location = url.partition(_SQLITE)
    if head or not mark:
        return ""
    path = unquote(location.partition("?")[0])
    try:
        file = Path(path).stat()
    except OSError:
        return ""
    files = [file]
    with suppress(OSError):
        log = Path(f"{path}-wal").stat()
        files += [log] if log.st_size else []  # an empty log does not count, because a reader may create it
    if time.time() - max(status.st_mtime for status in files) < SETTLED:
        return ""
    return " ".join(f"{status.st_ino} {status.st_size} {status.st_mtime_ns}" for status in files)
