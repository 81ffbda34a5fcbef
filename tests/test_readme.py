"""The tables in the README and in docs/results.md are what the shipped rows say."""

import json
from pathlib import Path

import pytest

from roarbench.stats.verdicts import Verdict
from roarbench.submissions.file import read_submission
from roarbench.text import SAME, interval
from tests.helpers.command_line import command

ROOT = Path(__file__).parent.parent
PUBLISHED = ("quick-2", "quick-specific-1")
TABLES = {  # suite and protocol of each table: where it stands, and how many rows it has
    ("quick-matched", "matched"): ("README.md", 8),
    ("quick-specific", "specific"): ("docs/results.md", 8),
    ("quick@2", "roar"): ("docs/results.md", 9),
}
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    for rows in PUBLISHED:
        assert command("import", ROOT / "studies" / "replication" / f"{rows}.parquet", "--store", folder) == 0
    return folder


def rows_of(answer):
    """Return the rows of a command's JSON, by estimator."""
    return {row["estimator"]: row for row in json.loads(answer.out)["rows"]}


def told(page, gain):
    """Return the cells of a page's table with this heading of gains, by estimator."""
    tables = (ROOT / page).read_text("utf-8").split("| place |")
    table = next(table for table in tables[1:] if gain in table.partition("\n")[0])
    lines = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()[2:]]
    return {cells[1].split("`")[1]: cells for cells in lines}


@pytest.mark.parametrize(("suite", "protocol"), TABLES)
def test_tables_of_pages_are_those_of_the_published_rows(store, call, suite, protocol):
    page, count = TABLES[suite, protocol]
    folder = ROOT / "demo" if suite == "quick-matched" else store
    rows = rows_of(call("table", "--suite", suite, "--protocol", protocol, "--store", folder, "--format", "json"))
    said = told(page, f"{protocol} gain" if protocol != "roar" else " gain [95 %] | beats all controls |")
    assert len(said) == count
    for name, (place, _, gain, beats, *more) in said.items():
        row = rows[name]
        low, high = row["place_low"], row["place_high"]
        assert place == (str(low) if low == high else f"{low}-{high}")
        whole = interval((row["gain"], row["gain_low"], row["gain_high"]))
        assert gain in ((whole, "0.0") if name == "random" else (whole,))
        sign = "<" if row["beats_controls"] is False and row["over_nearest_high"] < 0 else "≈"
        verdict = {None: "control", True: "yes", False: f"{sign} {row['nearest_control']}"}
        assert beats == verdict[row["beats_controls"]]
        if protocol == "specific":
            assert more == [(row["verdict"] or "–").replace(Verdict.SAME, SAME)]
        if protocol == "roar":
            assert more == [f"{100 * row['curve']['0.9']:.1f}"]


def test_gains_of_quick_in_documents_are_those_of_the_rows(store, call):
    rows = rows_of(call("table", "--suite", "quick@2", "--protocol", "roar", "--store", store, "--format", "json"))
    gains = {name: interval((row["gain"], row["gain_low"], row["gain_high"])) for name, row in rows.items()}
    pages = {
        "docs/corrections.md": ("var-grad", "sgsq-grad", "sobel", "sobel-released"),
        "docs/validity.md": ("sgsq-grad",),
        "studies/small_networks/README.md": ("var-grad", "sgsq-grad"),
    }
    for page, names in pages.items():
        text = (ROOT / page).read_text("utf-8")
        assert [name for name in names if gains[name] not in text] == [], page


def test_shares_of_the_blurred_random_map_in_the_readme_are_those_of_the_rows(store, call):
    rows = rows_of(call("validity", "--suite", "quick@2", "--store", store, "--format", "json"))
    readme = (ROOT / "docs" / "results.md").read_text("utf-8")
    for name in ("sgsq-grad", "var-grad"):
        value, low, high = rows[name]["marks"]["random-blurred"]["share"].values()
        assert f"{100 * value:.0f} % [{100 * low:.0f}, {100 * high:.0f}]" in readme
        assert f"{100 * rows[name]['mask_only']['0.9']['accuracy']['value']:.1f}" in readme


def test_the_submission_of_the_table_is_the_file_of_this_folder():
    shown = read_submission(ROOT / "submissions" / "class_evidence.py").id
    assert f"| `{shown}` |" in (ROOT / "README.md").read_text("utf-8")


def test_make_run_and_the_commands_of_the_readme_share_the_default_store():
    recipe = (ROOT / "Makefile").read_text("utf-8").partition("\nrun: ")[2].partition("\n\n")[0]
    commands = [
        line for line in (ROOT / "README.md").read_text("utf-8").splitlines() if line.startswith("    roarbench ")
    ]
    assert "roarbench run " in recipe and len(commands) == 5
    assert [line for line in (recipe, *commands) if "--store" in line] == []
