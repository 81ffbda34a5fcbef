"""The table in the README is what the rows beside it say."""

from pathlib import Path

import pytest

from tests.helpers.command_line import command

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.slow


def test_the_readmes_table_is_that_of_the_rows_in_docs(tmp_path, capsys):
    assert command("import", ROOT / "docs" / "quick-2.parquet", "--store", tmp_path) == 0
    capsys.readouterr()
    assert command("table", "--suite", "quick", "--store", tmp_path, "--format", "markdown") == 0
    rows = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    heading, rows = rows[0], [row for row in rows[1:] if "-" * 3 not in row[0]]
    assert heading[:3] == ["place", "estimator", "gain [95%]"]
    assert len(rows) == 9
    readme = (ROOT / "README.md").read_text().splitlines()
    for row in rows:
        place, estimator, gain, accuracy = (row[heading.index(name)] for name in (*heading[:3], "t=0.9"))
        said = [
            [word for word in line.split() if word not in ("(!)", "(!!)")]
            for line in readme
            if line.startswith("    ") and estimator.split()[0] in line.split()[1:2]
        ]
        assert any(
            words[0] == place and " ".join(words[2:]).startswith(gain) and words[-1] == accuracy for words in said
        ), (place, estimator, gain, accuracy)
        strong = [line for line in readme if line.startswith("    ") and f" {estimator.split()[0]} (!!) " in line]
        assert bool(strong) == estimator.endswith("(!!)")  # here the rows are imported, and all but these have (!)
