"""Sentences that do not hold are gone from where they stood."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROW = re.compile(r'\| (\S+\.md) \| "(.+?)" \| ')


def rows() -> list[tuple[str, str]]:
    text = (ROOT / "docs" / "corrections.md").read_text("utf-8")
    return [(file, sentence.replace('\\"', '"')) for file, sentence in ROW.findall(text)]


def flat(file: str) -> str:
    return " ".join((ROOT / file).read_text("utf-8").split())


def test_no_page_says_what_does_not_hold() -> None:
    assert [row for row in rows() if row[1] in flat(row[0])] == []


def test_the_page_on_statistics_has_the_studys_number() -> None:
    """Luck along a curve, from the tables that are held to the kept results."""
    tables = (ROOT / "studies" / "small_networks" / "tables.md").read_text("utf-8")
    found = re.search(r"Luck along a curve .*: (correlation \S+ over \d+ pairs, p = [\d.]+)\.\n", tables)
    assert found and found[1] in flat("docs/statistics.md")
    shares = [float(share) for share in re.findall(r"\| \+(0\.0\d+) \[", tables)]
    assert (min(shares), max(shares)) == (0.02, 0.056), "2 to 6 % in docs/statistics.md"
