"""Pages say what is so: the architecture's what the source has, tables what is declared and what the rows say.

    python tests/test_pages.py

writes the tables that are made of declarations.
"""

import json
import re
import tomllib
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from roarbench.common.text import format_bytes, format_interval, format_markdown_table
from roarbench.datasets.catalogue import DATASETS
from roarbench.plan.protocols import SHOWN

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
QUICK_2 = ROOT / "studies" / "replication" / "quick-2.toml"


def test_the_page_the_layers_and_the_source_have_the_same_rooms_and_the_picture_shows_them():
    """A package is a folder with an `__init__.py`, a room of the ground floor a module."""
    picture = import_module("draw_architecture")
    folders = {f"roarbench.{path.parent.name}" for path in (ROOT / "roarbench").glob("*/__init__.py")}
    ground = {f"roarbench.{path.stem}" for path in (ROOT / "roarbench").glob("*.py") if path.stem != "__init__"}
    roots = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"])
    layers = [room for layer in picture.read_layers() for room in layer]
    assert sorted(layers) == sorted(folders | ground | roots - {"roarbench"})
    assert list(picture.read_packages()) == layers
    assert picture.OUT.read_text() == picture.draw_svg()


def test_what_the_page_of_the_architecture_names_exists():
    page = (DOCS / "architecture.md").read_text()
    modules = re.findall(r"`((?:roarbench|leaderboard|toy)[\w.]*)`", page)
    files = re.findall(r"\b(?:tests|scripts|docs)/[\w/.]+\w", page)
    assert len(modules) > 20 and len(files) > 1
    assert [name for name in modules if not find_spec(name)] == []
    assert [path for path in files if not (ROOT / path).is_file()] == []


def protocol(of):
    return f"`{of.name}`", of.question, of.limits, of.use


def data(of):
    shape = f"{of.channels} columns" if of.tabular else "×".join(map(str, of.shape))
    source = f"`{of.hub}`{', gated' * of.gated}" if of.hub else "generated"
    return (
        *(f"`{of.name}`", of.about, shape, f"{of.classes:,}", f"{of.train_images:,}/{of.test_images:,}"),
        format_bytes((of.train_images + of.test_images) * of.channels * of.size**2),
        "bundled" if of.bundled else source,
    )


def table(heads, rows):
    return format_markdown_table(
        heads.split(", "), ([cell.replace("|", r"\|") for cell in row] for row in rows)
    ).splitlines()


DECLARED = {  # by page
    "protocols.md": table("protocol, question, fails where, use it", map(protocol, SHOWN.values())),
    "data.md": table("data set, content, shape, classes, train/test, decoded, from", map(data, DATASETS.values())),
}


@pytest.mark.parametrize("page", DECLARED)
def test_the_page_has_the_table(page):
    assert "\n".join(DECLARED[page]) in (DOCS / page).read_text(), f"run: python tests/{Path(__file__).name}"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    from tests.helpers.command_line import command  # which this file does not need as a program

    folder = tmp_path_factory.mktemp("published")
    assert command("import", ROOT / "studies" / "replication" / "quick-2.parquet", "--store", folder) == 0
    return folder


def rows_of(call, *words):
    """The rows that a command prints, by estimator."""
    return {row["estimator"]: row for row in json.loads(call(*words, "--format", "json").out)["rows"]}


def told(page):
    """The cells of a page's table of gains, by estimator."""
    (found,) = (ROOT / page).read_text("utf-8").split("| place |")[1:]
    lines = [line.strip("| ").split(" | ") for line in found.partition("\n\n")[0].splitlines()[2:]]
    return {cells[1].split("`")[1]: cells for cells in lines}


@pytest.mark.slow
def test_the_table_of_results_has_the_published_rows(published, call):
    rows = rows_of(call, "table", "--suite", QUICK_2, "--protocol", "roar", "--store", published)
    said = told("docs/results.md")
    assert len(said) == 9
    for name, (place, _, gain, beats, accuracy) in said.items():
        row = rows[name]
        low, high = row["place_low"], row["place_high"]
        assert place == (str(low) if low == high else f"{low}-{high}")
        whole = format_interval((row["gain"], row["gain_low"], row["gain_high"]))
        assert gain in ((whole, "0.0") if name == "random" else (whole,))
        sign = "<" if row["beats_controls"] is False and row["delta_nearest_control_high"] < 0 else "≈"
        verdict = {None: "control", True: "yes", False: f"{sign} {row['nearest_control']}"}
        assert beats == verdict[row["beats_controls"]]
        assert accuracy == f"{100 * row['curve']['0.9']:.1f}"


@pytest.mark.slow
def test_gains_and_shares_of_quick_in_documents_are_those_of_the_rows(published, call):
    rows = rows_of(call, "table", "--suite", QUICK_2, "--protocol", "roar", "--store", published)
    gains = {name: format_interval((row["gain"], row["gain_low"], row["gain_high"])) for name, row in rows.items()}
    pages = {
        "docs/corrections.md": ("var-grad", "sgsq-grad", "sobel", "sobel-released"),
        "studies/small_networks/README.md": ("var-grad", "sgsq-grad"),
    }
    for page, names in pages.items():
        text = (ROOT / page).read_text("utf-8")
        assert [name for name in names if gains[name] not in text] == [], page
    printed = call("diagnose", "--suite", QUICK_2, "--store", published).out
    results = (DOCS / "results.md").read_text("utf-8")
    for name in ("sgsq-grad", "var-grad"):
        marks, masks, *_ = re.findall(rf"(?m)^ {name} +(.*)$", printed)
        value, low, high = re.match(r"(\d+)% \[(\d+)%, (\d+)%\] strong", marks).groups()
        assert f"{value} % [{low}, {high}]" in results
        assert masks.split()[0] in results


@pytest.mark.slow
def test_the_readme_has_the_table_that_make_run_prints(tmp_path, call):
    assert call("import", ROOT / "results" / "quick" / "7" / "roarbench.parquet", "--store", tmp_path).code == 0
    printed = call("table", "--suite", "quick", "--format", "markdown", "--store", tmp_path).out
    (table,) = re.findall(r"(?m)(?:^\|.*\n)+", printed)
    assert table.count("\n") == 15
    assert table in (ROOT / "README.md").read_text("utf-8")


def test_the_commands_of_the_readme_share_the_store_of_make_run():
    page = (ROOT / "README.md").read_text("utf-8")
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nrun: ")[2].partition("\n\n")[0]
    commands = re.findall("(?m)^    roarbench .*", page)
    assert "roarbench run " in recipe and len(commands) == 5
    assert [line for line in (recipe, *commands) if "--store" in line] == []


if __name__ == "__main__":
    for page, lines in DECLARED.items():
        written = (DOCS / page).read_text().splitlines()
        first = written.index(lines[0])
        last = next(n for n in range(first, len(written)) if not written[n].startswith("|"))
        (DOCS / page).write_text("\n".join([*written[:first], *lines, *written[last:]]) + "\n")
