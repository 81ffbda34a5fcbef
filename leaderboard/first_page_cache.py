"""A cache of the app's first page, shown at once while the store is read again."""

import json
import time
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple
from urllib.parse import unquote

from platformdirs import user_cache_path

from roarbench.files import write_atomically
from roarbench.identity import hash_value
from roarbench.store.software_and_hardware import read_code_version

SELECTION_VARIABLE = "ROARBENCH_BOARD"  # environment variable with the selection for the app's script, as JSON
# set after this process has built the first board of every suite; set after a visitor's first page
boards_ready, first_page_shown = Event(), Event()
SETTLED = 2.0  # seconds, the coarsest times of a file system (FAT)
_SQLITE = "sqlite:///"
Selection = tuple[str, str]  # images and reference of the boards, arguments of `analysis.load_results.matches_query`
ALL: Selection = ("", "")
_written: dict[Path, tuple[str, str, "Page"]] = {}  # last arguments of `cache_page` by file


class ShownStore(NamedTuple):
    """The results that an app shows: their URL, store folder and selection."""

    url: str
    folder: str
    data: str = ""
    reference: str = ""


class Page(NamedTuple):
    """A page: title, HTML, and files to download."""

    title: str
    html: str
    files: dict[str, str] = {}


def make_shown_store(url: str, store: Path, data: str = "", reference: str = "") -> ShownStore:
    """Make the record of what an app shows, with absolute paths."""
    head, mark, path = url.partition(_SQLITE)
    anywhere = f"{mark}{Path(path).resolve()}" if mark and not head else url
    data = str(Path(data).resolve()) if data and Path(data).is_dir() else data
    return ShownStore(anywhere, str(store.resolve()), data, reference)


def read_cached_page(shown: ShownStore) -> Page | None:
    """Return the cached page; None if the store or the code has changed.

    If the database's files are those that the page was made from, the database is not opened, and SQLAlchemy and NumPy
    are not imported.

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
    """Cache a page, if the user's cache can be written and the code has a version; `sqlite_stamp` precedes `state`."""
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
    """Return the cache file, among the user's own files, as the store may be another user's."""
    return user_cache_path("roarbench") / "board" / f"{hash_value(list(shown))}.json"


def read_sqlite_stamp(url: str) -> str:
    """Return the size and time of an SQLite database's files, which every later write changes.

    Empty for another database, and for `SETTLED` seconds after a write: a second write at the same moment would leave
    both values as they are.
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
        files += [log] if log.st_size else []  # a reader makes an empty log
    if time.time() - max(status.st_mtime for status in files) < SETTLED:
        return ""
    return " ".join(f"{status.st_ino} {status.st_size} {status.st_mtime_ns}" for status in files)
