"""Pages agree with the source: the architecture page, tables of declarations, and tables of published rows.

    python tests/test_pages.py

writes the tables of declarations.
"""

import json
import re
import tomllib
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import pytest

from roarbench.common.text import format_bytes, format_interval, format_markdown_table
from roarbench.datasets.catalogue import DATASETS
from roarbench.estimators.ids import PARAMETERS
from roarbench.plan.protocols import SHOWN

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
QUICK_2 = ROOT / "studies" / "replication" / "quick-2.toml"


def test_architecture_picture_shows_packages_of_layers_and_source():
    """Packages are folders with an `__init__.py`, or modules directly in `roarbench`."""
    picture = import_module("draw_architecture")
    folders = {f"roarbench.{path.parent.name}" for path in (ROOT / "roarbench").glob("*/__init__.py")}
    ground = {f"roarbench.{path.stem}" for path in (ROOT / "roarbench").glob("*.py") if path.stem != "__init__"}
    roots = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["root_packages"])
    layers = [room for layer in picture.read_layers() for room in layer]
    assert sorted(layers) == sorted(folders | ground | roots - {"roarbench"})
    assert list(picture.read_packages()) == layers
    assert picture.OUT.read_text() == picture.draw_svg()


def test_architecture_page_names_existing_modules_and_files():
    page = (DOCS / "architecture.md").read_text()
    modules = re.findall(r"`((?:roarbench|leaderboard|toy)[\w.]*)`", page)
    files = re.findall(r"\b(?:tests|scripts|docs)/[\w/.]+\w", page)
    assert len(modules) > 20 and len(files) > 1
    assert [name for name in modules if not find_spec(name)] == []
    assert [path for path in files if not (ROOT / path).is_file()] == []


def test_statistics_page_names_existing_functions():
    named = re.findall(r"`([a-z_]+)\.(\w+)`", (DOCS / "statistics.md").read_text())
    assert len(named) > 10
    for module, function in named:
        package = "roarbench" if module == "rb" else f"roarbench.stats.{module}"
        assert hasattr(import_module(package), function), f"{module}.{function}"


def test_ids_of_example_submissions_have_the_digits_of_their_files():
    files = [file.read_bytes() for file in (ROOT / "submissions").glob("*.py")]
    digits = {re.search(rb'NAME = "([^"]+)"', file)[1].decode(): sha256(file).hexdigest()[:8] for file in files}
    pages = [page.read_text() for page in (*DOCS.glob("*.md"), ROOT / "submissions" / "README.md", ROOT / "README.md")]
    named = [id_ for page in pages for id_ in re.findall(r"([a-z-]+)@([0-9a-f]{8})", page) if id_[0] in digits]
    assert len(named) >= 3 and all(digits[name] == seen for name, seen in named), named


def describe_data_set(of):
    shape = f"{of.channels} columns" if of.tabular else "×".join(map(str, of.shape))
    source = f"`{of.hub}`{', gated' * of.gated}" if of.hub else "generated"
    return (
        *(f"`{of.name}`", of.about, shape, f"{of.classes:,}", f"{of.train_images:,}/{of.test_images:,}"),
        format_bytes((of.train_images + of.test_images) * of.channels * of.size**2),
        "bundled" if of.bundled else source,
    )


def format_table(heads, rows):
    cells = ([cell.replace("|", r"\|") for cell in row] for row in rows)
    return format_markdown_table(heads.split(", "), cells).splitlines()


DECLARED = {  # by page
    "data.md": format_table(
        "data set, content, shape, classes, train/test, decoded, from", map(describe_data_set, DATASETS.values())
    ),
    "estimators.md": format_table(
        "parameter, what it is, values", ([f"`{name}`", of.about, of.expected] for name, of in PARAMETERS.items())
    ),
}


@pytest.mark.parametrize("page", DECLARED)
def test_page_has_table_of_declarations(page):
    assert "\n".join(DECLARED[page]) in (DOCS / page).read_text(), f"run: python tests/{Path(__file__).name}"


def test_protocols_page_has_question_of_every_protocol():
    text = (DOCS / "protocols.md").read_text("utf-8").replace(r"\|", "|")
    assert [of.name for of in SHOWN.values() if f"| `{of.name}` | {of.question} |" not in text] == []


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    from tests.helpers.command_line import command  # not needed when this file runs as a program

    folder = tmp_path_factory.mktemp("published")
    assert command("import", ROOT / "studies" / "replication" / "quick-2.parquet", "--store", folder) == 0
    return folder


def read_rows(call, *words):
    """Return the rows that a command prints, by estimator."""
    return {row["estimator"]: row for row in json.loads(call(*words, "--format", "json").out)["rows"]}


def read_page_table(page):
    """Return the cells of a page's table of gains, by estimator."""
    (found,) = (ROOT / page).read_text("utf-8").split("| place |")[1:]
    lines = [line.strip("| ").split(" | ") for line in found.partition("\n\n")[0].splitlines()[2:]]
    return {cells[1].split("`")[1]: cells for cells in lines}


@pytest.mark.slow
def test_results_page_table_equals_published_rows(published, call):
    rows = read_rows(call, "table", "--suite", QUICK_2, "--protocol", "roar", "--store", published)
    said = read_page_table("docs/results.md")
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
@pytest.mark.parametrize(
    ("file", "suite"),
    [
        ("results/quick-matched/3/roarbench.parquet", "quick-matched"),  # M of the page
        ("studies/replication/quick-matched-1.parquet", ROOT / "studies" / "replication" / "quick-matched-1.toml"),  # R
    ],
)
def test_matched_gains_of_corrections_equal_printed_rows(file, suite, tmp_path, call):
    assert call("import", ROOT / file, "--store", tmp_path).code == 0
    row = read_rows(call, "table", "--suite", suite, "--store", tmp_path)["sgsq-grad"]
    gain = format_interval((row["gain"], row["gain_low"], row["gain_high"]))
    assert f"SG-SQ's matched gain, {gain}, " in (DOCS / "corrections.md").read_text("utf-8")


@pytest.mark.slow
def test_readme_has_table_of_make_run(tmp_path, call):
    assert call("import", ROOT / "results" / "quick" / "8" / "roarbench.parquet", "--store", tmp_path).code == 0
    printed = call("table", "--suite", "quick", "--format", "markdown", "--store", tmp_path).out
    (table,) = re.findall(r"(?m)(?:^\|.*\n)+", printed)
    assert table.count("\n") == 17
    assert table in (ROOT / "README.md").read_text("utf-8")


def test_readme_commands_use_default_store_of_make_run():
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
