"""The tables in the README and in docs/results.md are what the rows beside them say."""

import json
from pathlib import Path

import pytest

from roarbench.text import interval
from tests.helpers.command_line import command

ROOT = Path(__file__).parent.parent
MARKS = ("(!)", "(!!)", "†")  # of rows: imported ones lack what the last one needs
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quick-2")
    assert command("import", ROOT / "results" / "quick" / "2" / "roarbench.parquet", "--store", folder) == 0
    return folder


@pytest.fixture(scope="module")
def specific(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quick-specific")
    assert command("import", ROOT / "results" / "quick-specific" / "1" / "roarbench.parquet", "--store", folder) == 0
    return folder


def test_the_readmes_table_is_that_of_the_rows_in_docs(tmp_path, capsys):
    assert command("import", ROOT / "results" / "quick-matched" / "1" / "roarbench.parquet", "--store", tmp_path) == 0
    capsys.readouterr()
    assert command("table", "--suite", "quick-matched", "--store", tmp_path, "--format", "json") == 0
    rows = {row["estimator"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    lines = [line.strip("| ").split(" | ") for line in (ROOT / "README.md").read_text("utf-8").splitlines()]
    said = {cells[1].strip("`"): cells for cells in lines if len(cells) == 4 and cells[1].startswith("`")}
    assert len(said) == 8
    for name, (place, _, gain, beats) in said.items():
        row = rows[name]
        low, high = row["place_low"], row["place_high"]
        assert place == (str(low) if low == high else f"{low}-{high}")
        assert gain == f"{row['gain']:+.1f} [{row['gain_low']:+.1f}, {row['gain_high']:+.1f}]"
        verdict = {None: "control", True: "yes", False: f"< {row['nearest_control']}"}
        assert beats == verdict[row["beats_controls"]]
        assert row["beats_controls"] is not False or row["over_nearest_high"] < 0


@pytest.mark.parametrize(
    ("suite", "protocol", "count", "last"),
    (("quick-specific", "specific", 8, "gain t=0.9"), ("quick", "roar", 9, "t=0.9")),
)
def test_the_readmes_tables_are_those_of_the_rows_in_docs(store, specific, capsys, suite, protocol, count, last):
    held = store if suite == "quick" else specific
    capsys.readouterr()
    assert command("table", "--suite", suite, "--protocol", protocol, "--store", held, "--format", "markdown") == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    heading, rows = rows[0], [row for row in rows[1:] if "-" * 3 not in row[0]]
    assert heading[:3] == ["place", "estimator", "gain [95%]"]
    assert len(rows) == count
    readme = (ROOT / "docs" / "results.md").read_text().splitlines()
    for row in rows:
        place, estimator, gain, accuracy = (row[heading.index(name)] for name in (*heading[:3], last))
        said = [
            [word for word in line.split() if word not in MARKS]
            for line in readme
            if line.startswith("    ") and estimator.split()[0] in line.split()[1:2]
        ]
        assert any(
            words[0] == place and " ".join(words[2:]).startswith(gain) and words[-1] == accuracy for words in said
        ), (place, estimator, gain, accuracy)
        lines = (line.replace("† ", "") for line in readme if line.startswith("    "))
        strong = [line for line in lines if f" {estimator.split()[0]} (!!) " in line]
        if protocol == "roar":
            assert bool(strong) == estimator.endswith("(!!)")  # here the rows are imported, and all but these have (!)


def test_gains_of_quick_in_documents_are_those_of_the_rows(store, capsys):
    capsys.readouterr()
    assert command("table", "--suite", "quick", "--protocol", "roar", "--store", store, "--format", "json") == 0
    rows = {row["estimator"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    gains = {name: interval((row["gain"], row["gain_low"], row["gain_high"])) for name, row in rows.items()}
    pages = {
        "docs/corrections.md": ("var-grad", "sgsq-grad", "sobel", "sobel-released"),
        "docs/validity.md": ("sgsq-grad",),
    }
    pages |= {"studies/small_networks/README.md": ("var-grad", "sgsq-grad")}
    for page, names in pages.items():
        text = (ROOT / page).read_text("utf-8")
        assert [name for name in names if gains[name] not in text] == [], page


def test_shares_of_the_blurred_random_map_in_the_readme_are_those_of_the_rows(store, capsys):
    capsys.readouterr()
    assert command("validity", "--suite", "quick", "--store", store, "--format", "json") == 0
    rows = {row["estimator"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    readme = (ROOT / "docs" / "results.md").read_text("utf-8")
    for name in ("sgsq-grad", "var-grad"):
        value, low, high = rows[name]["marks"]["random-blurred"]["share"].values()
        assert f"{100 * value:.0f} % [{100 * low:.0f}, {100 * high:.0f}]" in readme
        assert f"{100 * rows[name]['mask_only']['0.9']['accuracy']['value']:.1f}" in readme
