"""The static site: pages work without scripts, foreign text is escaped, downloads equal `roarbench table`."""

import json
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from jinja2 import Environment, FileSystemLoader
from PIL import Image

from leaderboard.app import make_page
from leaderboard.links import PageNotFound, Site, make_address, make_file_name
from leaderboard.render import PAGES, CompiledTemplates, export_site, list_addresses, render_message, render_page
from leaderboard.serve_and_export import make_shown
from leaderboard.stored_suites import SHOWN_VARIABLE, read_views
from roarbench.common.errors import CallerError
from roarbench.plan.protocols import ROAR
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.plan.suites import SUITES
from roarbench.store.results import DEFAULT_FILE, ResultsStore, make_default_url
from roarbench.store.user_files import store_submission
from roarbench.submissions.submission_file import parse_submission
from tests.helpers import hostile
from tests.helpers.board_store import make_store
from tests.helpers.shown_tables import render as as_format


class Parsed(HTMLParser):
    """The tags of a page with their attributes, and its visible text."""

    def __init__(self, path):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.tags if name == tag]


def parse_pages(site):
    return {path.name: Parsed(path) for path in sorted(site.glob("*.html"))}


def test_site_pages_are_valid_and_links_lead_to_files(site, views):
    found = parse_pages(site)
    forward = found.pop(make_file_name(list_addresses(views)[0]))
    assert forward.all("meta")[0]["content"] == "0; url=index.html", "the first page's own name leads to the index"
    assert len(found) > 20
    for name, page in found.items():
        assert len(page.all("h1")) == 1 and page.all("html") == [{"lang": "en"}], name
        (title,) = re.findall("<title>(.+) – roarbench</title>", (site / name).read_text())
        assert title and len(title) < 100, name
        links = [attrs["href"] or "" for attrs in page.all("a")]
        inner = [link for link in links if not link.startswith(("https://", "#"))]
        assert not [link for link in inner if not (site / link.partition("#")[0]).is_file()], name
        assert {link.split("/")[2] for link in links if link.startswith("https:")} <= {"github.com", "arxiv.org"}, name
        loaded = [a.get("src") or a.get("href") for tag in ("script", "link", "img") for a in page.all(tag)]
        assert not [file for file in loaded if file and file.startswith(("http", "//"))], name
        assert "default-src 'none'" in str(page.all("meta")), name
        assert all(attrs.get("alt") for attrs in page.all("img")), name
    assert found["index.html"].all("a")[0]["href"] == "#rows", "the first stop of the keyboard skips to rows"
    assert sum((site / name).stat().st_size for name in ("index.html", "board.css", "board.js")) < 60_000
    text = (site / "index.html").read_text()
    assert text.count("<noscript>") == 1 and "Without scripts, only search and sorting are missing." in text


def test_site_board_shows_table_rows_and_downloads_equal_command_output(site, views):
    for at in list_addresses(views):
        if at.page == "board" and not at.get_choice("unit"):
            view, name = views[at.suite], at.get_choice("protocol")
            board = next(
                b
                for b in map(view.get_board, view.protocols)
                if b.protocol.name == (name or view.headline_protocol.name)
            )
            html = (site / ("index.html" if at == list_addresses(views)[0] else make_file_name(at))).read_text()
            body = html.partition("<tbody")[2].partition("</tbody>")[0]
            assert re.findall(r"<code>(.*?)</code>", body) == [row.id for row in board.rows]
            places = re.findall(r'<td class="place">(.*?)</td>', body)
            assert [place == "–" for place in places] == [row.place is None for row in board.rows]
    view = views["quick-v2"]
    tables = json.loads((site / "quick-v2.json").read_text())
    assert tables == [json.loads(as_format(table, "json")) for table in view.tables]
    lines = (site / "quick-v2.csv").read_text().splitlines()
    assert len(lines) == 1 + sum(len(table.rows) for table in view.tables)
    app = Site(views, list_addresses(views), live=True)
    render_page(app, make_address("board", "quick-v2", protocol="roar"))
    assert app.files["board-quick-v2-roar-scalar.csv"]().decode() == f"{as_format(view.table(ROAR), 'csv')}\n"


def test_app_reports_missing_pages(views):
    app = Site(views, list_addresses(views), live=True)
    for asked, where in (
        ({"page": "wurst"}, "here"),
        ({"suite": "wurst"}, "here"),
        ({"suite": "quick-v1", "protocol": "wurst"}, "in quick v1"),
        ({"page": "estimator", "estimator": "nobody"}, "here"),
    ):
        *_, (what, name) = asked.items()
        with pytest.raises(PageNotFound, match=re.escape(f"There is no {what} '{name}' {where}.")):
            render_page(app, make_address(**asked))
    assert "&lt;b&gt;" in render_message("<b>", Site({}, live=True)).html
    html = render_page(app, make_address("board", "quick-v2")).html
    there = {at.page for at in list_addresses(views)}
    labels = [label for name, (label, _) in PAGES.items() if label and name in there]
    header = html.partition("<header>")[2].partition("</header>")[0]
    assert "images" not in there and re.findall(r">([^<]+)</a>", header) == ["roarbench", *labels]


def test_make_file_name_returns_safe_unique_names():
    names = ["a/b", "a_b", "a b", "x" * 90, "x" * 91, "../../etc", "A", "a"]
    files = [make_file_name(make_address("estimator", estimator=name)) for name in names]
    assert len(set(files)) == len(names) and files[-1] == "estimator-a.html"
    assert all(re.fullmatch(r"estimator-[\w.-]{1,73}\.html", file, re.A) for file in files)


HOSTILE_FILE = """# \u202e <script>window.hurt=1</script> \x1b[31m
NAME = "mine"
DESCRIPTION = "![x](http://127.0.0.1:9/a.png) <b>bold</b>"
AUTHORS = "A <script>window.hurt=1</script> Writer"
PAPER = "[paper](javascript:window.hurt=1)"
CLAIM = "beats </pre><img src=x onerror=window.hurt=1> all"


def estimate(model, images, targets, generator):
    return images
"""


def test_site_escapes_hostile_text(tmp_path, monkeypatch):
    """Names, descriptions, a network, a data set, a failure and a submission contain harmful HTML."""
    site, entry = tmp_path / "site", parse_submission(HOSTILE_FILE.encode())
    suite = add_estimators_with_twins(hostile.install(monkeypatch), [entry.id])
    with ResultsStore.open(make_store(tmp_path, suite, images=60)) as store:
        store_submission(store.database, entry)
        views = read_views(store, tmp_path)
        run = next(iter(views["hostile-v1"].results.results.values())).run
        store.failures.record_runs_failed_until_retry([run], "<script>window.hurt=1</script>")
        export_site(views, site)
    found = parse_pages(site)
    del found[make_file_name(list_addresses(views)[0])]  # it leads to the index, and shows no text of the store
    drawn = {part.tag.partition("}")[2] for part in ElementTree.parse(site / "board-hostile-v1.svg").iter()}
    assert drawn <= {"svg", "style", "rect", "text", "tspan", "line", "g", "circle", "path"}
    assert len([name for name in found if name.startswith("estimator-")]) == len(hostile.NAMES) + 3
    link = re.compile(r"(?!javascript)[\w#.-]|https://(github\.com|arxiv\.org)/", re.IGNORECASE)
    image = re.compile(r"[\w.-]+\.(svg|webp|png)$|data:image/svg\+xml;base64,")
    for name, page in found.items():
        assert [attrs.get("src") for attrs in page.all("script")] == ["board.js"], name
        assert not [key for _, attrs in page.tags for key in attrs if key.startswith("on")], name
        assert not {"textarea", "iframe", "object", "style"} & {tag for tag, _ in page.tags}, name
        assert all(image.match(attrs["src"] or "") for attrs in page.all("img")), name
        assert all(link.match(attrs["href"] or "") for attrs in page.all("a")), name
        assert "\u202e" not in page.text and "\x1b" not in page.text, name
        assert max(map(len, re.findall(r"[yz]+", page.text)), default=0) <= 300, name
    mine = next(path for path in site.glob("estimator-*.html") if "A &lt;script&gt;" in path.read_text())
    assert "def estimate(model" in mine.read_text()
    assert re.search(r" · computed \d+ [A-Z]", mine.read_text())
    cells = "\n".join(file.read_text() for file in site.glob("*.csv"))
    assert "'=HYPERLINK(0)" in cells and not re.search(r"(^|,)=HYPER", cells, re.MULTILINE)


def test_leaderboard_export_keeps_store_and_reports_errors_in_one_line(call, views, tmp_path, monkeypatch):
    folder, out, empty = (tmp_path / name for name in ("store", "out", "empty"))
    make_store(folder, SUITES["planted"], images=20)
    before = (folder / DEFAULT_FILE).read_bytes()
    assert call("leaderboard", "--store", folder, "--export", out).code == 0
    assert (out / "index.html").is_file()
    assert (folder / DEFAULT_FILE).read_bytes() == before
    assert {path.name.partition("-")[0] for path in folder.iterdir()} == {DEFAULT_FILE}  # beside its journal
    with pytest.raises(CallerError, match="cannot write"):
        export_site(views, out / "index.html" / "site")
    answer = call("leaderboard", "--store", empty, "--export", out)
    assert answer.code and "results store" in answer.err and answer.err.count("\n") == 1
    ResultsStore.open(make_default_url(empty)).close()
    assert call("leaderboard", "--store", empty, "--export", empty / "site").code == 0
    monkeypatch.setenv(SHOWN_VARIABLE, json.dumps(make_shown(make_default_url(empty), empty)))
    for html in ((empty / "site" / "index.html").read_text(), make_page({}).html):
        assert "<h1>No results yet.</h1>" in html and "roarbench run --suite quick --store STORE" in html
        assert "roarbench status --suite quick --store STORE" in html


def test_roar_board_with_several_levels_shows_curves(site, views):
    """`quick` 2 has ROAR at .9 alone; other orders have no picture of curves."""
    sources = [[attrs["src"] for attrs in page.all("img")] for page in parse_pages(site).values()]
    curves = [shown for shown in ([file for file in page if file.startswith("curves-")] for page in sources) if shown]
    assert views["quick-v1"].table(ROAR).board.levels[1:] and not views["quick-v2"].table(ROAR).board.levels[1:]
    assert {shown[0] for shown in curves} == {f"curves-{slug}-scalar.webp" for slug in views if slug != "quick-v2"}
    assert len(curves) == len(views) - 1
    picture = Image.open(site / "curves-quick-v1-scalar.webp")
    assert picture.width > 500 and len(set(picture.convert("L").resize((64, 64)).tobytes())) > 10, "not blank"


def test_compiled_templates_are_kept_if_they_can_be_written(tmp_path, monkeypatch):
    (tmp_path / "line.html").write_text("{{ 1 + 1 }} of {{ n }}")
    kept = tmp_path / "kept"

    def render(folder):
        loader, cache = FileSystemLoader(tmp_path), CompiledTemplates(str(folder), "%s")
        return Environment(loader=loader, bytecode_cache=cache).get_template("line.html").render(n=3)

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert render(kept) == "2 of 3" and not kept.exists()
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert render(tmp_path / "missing" / "kept") == "2 of 3"
    assert render(kept) == "2 of 3" and len([*kept.iterdir()]) == 1
    with monkeypatch.context() as changed:
        changed.setattr(Environment, "compile", None)
        assert render(kept) == "2 of 3"
    (tmp_path / "line.html").write_text("{{ 1 + 2 }} of {{ n }}")
    assert render(kept) == "3 of 3" and len([*kept.iterdir()]) == 1
