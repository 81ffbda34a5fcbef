"""A cache of the app's first page, shown at once while the store is read again."""

import json
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import NamedTuple

from platformdirs import user_cache_path

from roarbench.files import write_atomically
from roarbench.identity import hash_value
from roarbench.store.provenance import read_code_version
from roarbench.store.results import ResultsStore

ASKED = "ROARBENCH_BOARD"  # environment variable with the selection for the app's script, as JSON
# set after this process has built a board from the whole store; set after a visitor's first page
judged, seen = Event(), Event()
_kept: dict[Path, str] = {}  # stamps of cached pages, by file
Selection = tuple[str, str]  # images and reference of the boards, arguments of `analysis.results_query.matches_query`
ALL: Selection = ("", "")


class Shown(NamedTuple):
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


def read_cached_page(shown: Shown) -> Page | None:
    """Return the cached page; None if the store or the code has changed.

    Raises:
        StoreError: The store cannot be opened.
    """
    if judged.is_set():
        return None
    try:
        kept = json.loads(find_cache_file(shown).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    with ResultsStore.open(shown.url, read_only=True) as results:
        return Page(**kept["page"]) if kept["stamp"] == _stamp(results.state()) else None


def cache_page(shown: Shown, state: str, page: Page) -> None:
    """Cache the page of a store in this state, if the user's cache can be written and the code has a version."""
    stamp, path = _stamp(state), find_cache_file(shown)
    if read_code_version().endswith("+dirty") or _kept.get(path) == stamp:
        return
    _kept[path] = stamp
    text = json.dumps({"stamp": stamp, "page": page._asdict()})
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary: temporary.write_text(text, "utf-8"), path.with_suffix(".partial"))


def find_cache_file(shown: Shown) -> Path:
    """Return the cache file, among the user's own files, as the store may be another user's."""
    return user_cache_path("roarbench") / "board" / f"{hash_value(list(shown))}.json"


def _stamp(state: str) -> str:
    return f"{read_code_version()} | {state}"
