"""The board as static pages: the same tables and figures as the app, laid out by templates that escape all text.

A large board is packed: its pages and downloads are deflated, each page still a file of its own. A page of 200
estimators in 5 suites repeats itself so much that it shrinks to a tenth. The browser unpacks it (`assets/unpack.js`),
with or without a server. Small boards stay as they are, and are read without scripts.
"""

import base64
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from string import Template
from typing import Any

from leaderboard import pages, static_board, static_pages
from leaderboard.curves import probability_tables
from leaderboard.downloads import ASSETS, Records, board_files, templates, to_csv, to_json
from leaderboard.entry import machines, profile
from leaderboard.gallery import Bytes, png
from leaderboard.snapshot import SuiteView
from leaderboard.source import RunState, count_runs, read_runs
from leaderboard.text import HEADINGS, plain
from roarbench.errors import CallerError
from roarbench.store.provenance import code_version
from roarbench.store.results import ResultsStore

PAGES = ("Board", "Curves", "Compare", "Gallery", "Cost", "Runs")  # one of each for every suite


@dataclass(frozen=True)
class Site:
    """Parts that all pages of one export share.

    Attributes:
        folder: Where they are written.
        views: The suites that they show.
        runs: State of the runs of each suite, by slug.
        made: When, in UTC.
    """

    folder: Path
    views: tuple[SuiteView, ...]
    runs: Mapping[str, tuple[RunState, ...]]
    made: datetime

    def nav(self, suite: SuiteView | None) -> list[tuple[str, str]]:
        """Return pages with their files, those of one suite or of the first."""
        suite = suite or (self.views[0] if self.views else None)
        own = [(name, page_file(name, suite.slug)) for name in PAGES] if suite else []
        return [*own, ("Claims", "claims.html"), ("About", "about.html")]

    def write(self, template: str, file: str, page: str, suite: SuiteView | None, **fields: Any) -> None:
        """Fill a template into a file."""
        same = page if page in PAGES else "Board"
        shared = {
            "page": page,
            "nav": self.nav(suite),
            "suites": [(view.suite_results.title, page_file(same, view.slug)) for view in self.views],
            "suite": suite.suite_results.title if suite else "",
            "version": code_version(),
            "date": f"{self.made:%Y-%m-%d}",
        }
        text = templates().get_template(template).render(**shared, **fields)
        (self.folder / file).write_text(text, encoding="utf-8")

    def picture(self, picture: Bytes) -> str:
        """Write a picture, once for all pages that show it; returns its name."""
        made = png(picture)
        name = f"picture-{sha256(made).hexdigest()[:12]}.png"
        (self.folder / name).write_bytes(made)
        return name

    def save(self, kinds: Mapping[str, str], stem: str) -> list[tuple[str, str]]:
        """Write what is shown as files to download; returns their names for the page."""
        for ending, text in kinds.items():
            (self.folder / f"{stem}.{ending}").write_text(text, encoding="utf-8")
        return [(ending.upper(), f"{stem}.{ending}") for ending in kinds]


def page_file(page: str, slug: str) -> str:
    """Return the name of a suite's page."""
    return f"{page.lower()}-{slug}.html"


def entry_file(estimator: str) -> str:
    """Return the name of an estimator's page, of harmless letters whatever its id is made of."""
    harmless = "".join(c if c.isascii() and (c.isalnum() or c == "-") else "_" for c in estimator)[:40]
    mark = "" if harmless == estimator else f"-{sha256(estimator.encode()).hexdigest()[:8]}"
    return f"entry-{harmless}{mark}.html"


def export(views: Sequence[SuiteView], store: ResultsStore, folder: Path) -> int:
    """Write all pages; files of other names in the folder stay.

    Returns:
        The number of pages.

    Raises:
        CallerError: The folder cannot be written.
    """
    runs = {view.slug: read_runs(view.suite_results, store) for view in views}
    site = Site(folder, tuple(views), runs, datetime.now(UTC))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("parts.css", "board.css", "board.js"):
            (folder / name).write_bytes((ASSETS / name).read_bytes())
        for view in views:
            _suite_pages(site, view)
            view.rest()
        estimators = _estimators(views)
        for name in estimators:
            _entry_page(site, name)
        _shared_pages(site)
    except OSError as error:
        raise CallerError(f"cannot write {folder}: {error.strerror}; name a folder that can be written") from None
    return len(PAGES) * len(views) + len(estimators) + 3


def _estimators(views: Iterable[SuiteView]) -> list[str]:
    return list(dict.fromkeys(entry.estimator for view in views for entry in view.entries))


def _entry_page(site: Site, name: str) -> None:
    file = entry_file(name)
    fields = static_pages.entry_page(site.views, name, site.picture)
    files = site.save(_table_files(fields["boards"]), file.removesuffix(".html"))
    about = profile(name, (view.suite_results for view in site.views))
    site.write("entry.html", file, "Entry", None, title=plain(name), about=about, files=files, **fields)


def _table_files(records: Records, suite: str = "") -> dict[str, str]:
    return {"csv": to_csv(records), "json": to_json(records, **({"suite": suite} if suite else {}))}


def _suite_pages(site: Site, view: SuiteView) -> None:
    title, slug = view.suite_results.title, view.slug

    def write(page: str, **fields: Any) -> None:
        site.write(f"{page.lower()}.html", page_file(page, slug), page, view, title=f"{title}: {page}", **fields)

    write("Board", **_board(site, view))
    if view is site.views[0]:
        site.write("board.html", "index.html", "Board", view, title=f"{title}: Board", **_board(site, view))
    curves = static_pages.curves_page(view)
    write("Curves", **curves, files=site.save(_table_files(curves["points"], title), f"curves-{slug}"))
    pairs = static_pages.compare_page(view)
    records = pairs.pop("records")
    write("Compare", **pairs, files=site.save(_table_files(records, title), f"compare-{slug}"))
    gallery = static_pages.gallery_page(view, site.picture)
    kinds = _table_files(gallery["pictures"], title)
    write("Gallery", **gallery, files=site.save(kinds, f"gallery-{slug}") if gallery["pictures"] else [])
    cost = static_pages.cost_page(view)
    kinds = _table_files(cost["points"], title)
    write("Cost", **cost, files=site.save(kinds, f"cost-{slug}") if cost["points"] else [])
    runs = site.runs[slug]
    states = [{"run": run.run, "state": run.state, "reason": run.reason} for run in runs]
    failed = [row for row in states if row["state"] == "failed"]
    files = site.save(_table_files(states, title), f"runs-{slug}")
    write("Runs", counts=count_runs(runs), failed=failed, machines=machines(view.suite_results), files=files)


def _board(site: Site, view: SuiteView) -> dict[str, Any]:
    page = static_board.board_page(view)
    links = {entry.estimator: entry_file(entry.estimator) for entry, _, _ in page["rows"]}
    files = [(table, site.save(board_files(table), table.stem)) for table in page.pop("tables")]
    sorts = {key: pages.ColumnSort("descending" if key == "gain" else "") for key in HEADINGS}
    found = [
        (each, site.save(_table_files(each.records, each.title), each.stem))
        for each in probability_tables(view.suite_results)
    ]
    return {**page, "pages": links, "sorts": sorts, "wholes": files, "probabilities": found}


def _shared_pages(site: Site) -> None:
    claims = pages.claims(site.views)
    records = [
        {"table": suite_results.title, "numbers are": suite_results.caption, **row}
        for suite_results in claims
        for row in suite_results.rows
    ]
    files = site.save(_table_files(records), "claims")
    site.write("claims.html", "claims.html", "Claims", None, title="Claims of the paper", tables=claims, files=files)
    about = static_pages.about_page()
    files = site.save(_table_files(about.pop("points")), "toy")
    site.write("about.html", "about.html", "About", None, title="About", files=files, **about)
    if not site.views:
        site.write("empty.html", "index.html", "Board", None, title="No results yet", **static_pages.empty_page())


LIMIT = 3_000_000  # bytes of a whole board
_UNPACK = "unpack.js"
_LINK = re.compile(r'<a href="([^"/]+)" download>')
_PAGE = Template("""<!doctype html>
<html lang="en">
$head
<body><noscript><p>This board is large, so its pages are packed: they need scripts.</p></noscript>
<script type="text/plain" id="packed">$page</script>
$files
</body>
</html>
""")


def pack(folder: Path) -> None:
    """Pack all pages of a folder with the downloads that they link, if the folder is larger than the limit."""
    if sum(path.stat().st_size for path in folder.iterdir()) <= LIMIT:
        return
    linked: set[str] = set()
    for path in sorted(folder.glob("*.html")):
        text = path.read_text(encoding="utf-8")
        names = [name for name in dict.fromkeys(_LINK.findall(text)) if (folder / name).is_file()]
        path.write_text(_packed(text, {name: (folder / name).read_bytes() for name in names}), encoding="utf-8")
        linked.update(names)
    for name in linked:
        (folder / name).unlink()
    (folder / _UNPACK).write_bytes((Path(__file__).parent / "assets" / _UNPACK).read_bytes())


def _packed(text: str, files: dict[str, bytes]) -> str:
    """Return a page that has its own body, and the files that it links, as deflated text."""
    head, _, body = text.partition("<body>")
    head = head[head.index("<head>") :].rstrip().replace('src="board.js"', f'src="{_UNPACK}"')
    kept = [
        f'<script type="text/plain" data-file="{name}">{_deflated(content)}</script>' for name, content in files.items()
    ]
    return _PAGE.substitute(head=head, page=_deflated(body.rpartition("</body>")[0].encode()), files="\n".join(kept))


def _deflated(content: bytes) -> str:
    packer = zlib.compressobj(9, wbits=-zlib.MAX_WBITS)  # raw deflate
    return base64.b64encode(packer.compress(content) + packer.flush()).decode()
