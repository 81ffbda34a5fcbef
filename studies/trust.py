"""What the board's page on trust says: numbers of the studies' pages, taken from their tables.

    python -m studies.trust

writes leaderboard/trust.json. No number is typed here: each is read where its study wrote it.
"""

import json
import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from studies.page import program

ROOT = Path(__file__).parents[1]
TRUST = ROOT / "leaderboard" / "trust.json"
_LIMITS = re.compile(
    r"^\*\*(?:Left out|Where it falls short|What it cannot do)\.\*\* (.+)$|^(What it cannot tell: .+)$", re.M
)
_CORRECTION = re.compile(r'^\| \S+ \| "(.+?)" \| .+? \| (.+?) \| [^|]+ \|$', re.M)

Cells = Callable[..., list[list[str]]]


class Finding(NamedTuple):
    """One answer of a study."""

    study: str  # its folder
    title: str  # the question of the group that it stands in
    command: str  # that says it again
    # returns the number and what it counts, from the cells of the page's tables
    said: Callable[[Cells], tuple[str, str]]
    page: str = "README.md"  # of the study


def total(rows: list[list[str]], column: int) -> int:
    """Return the sum of a column."""
    return sum(int(row[column]) for row in rows)


def generated(cells: Cells) -> tuple[str, str]:
    """Count pairs of rows whose order is known, settled by specific gain on generated images."""
    rows = list({row[0]: row for row in reversed(cells(1, "`specific`", "planted"))}.values())  # the first table's
    right, wrong = total(rows, 2), total(rows, 3)
    pairs = right + wrong + total(rows, 4)
    return f"{right} of {pairs}", (
        f"pairs of maps are put in their known order on generated images by specific gain, {wrong} the wrong way. "
        "Where features stand at one place in every image it is blind: another image’s map is as good there."
    )


def photographs(cells: Cells) -> tuple[str, str]:
    """Count pairs of maps of which one was made worse step by step."""
    rows = cells(0, "matched", "")
    maps, null = ([row for row in rows if (row[1] == "random-blurred") is blurred] for blurred in (False, True))
    pairs, nulls = (sum(total(part, column) for column in (-3, -2, -1)) for part in (maps, null))
    settled = total(null, -3) + total(null, -2)
    return f"{total(maps, -3)} of {pairs}", (
        f"pairs of photographs’ maps, one of them made worse on purpose, are put in order by matched gain, "
        f"{total(maps, -2)} the wrong way. Of {nulls} pairs that know nothing it orders {settled}."
    )


def corpus(cells: Cells) -> tuple[str, str]:
    """Count maps that ask no network and are called better all the same."""
    ((_, maps, random, beats, *_),) = cells(0, "matched", "")
    return f"{beats} of {maps}", (
        f"maps that ask no network beat every control by matched gain. {random} of them are better than Random, "
        "which is why that verdict is no evidence here."
    )


def again(cells: Cells) -> tuple[str, str]:
    """Count verdicts that came out the same in another run."""
    ((_, _, pairs, inside, _, verdicts),) = cells(1, "references crossed, as here", "`specific`")
    same, opposed = verdicts.split(" / ")
    return same.partition(" (")[0], (
        f"verdicts against all controls are the same in {pairs} pairs of runs with other networks and seeds, {opposed} "
        f"opposed, under specific gain; {inside.partition(' (')[0]} gains lie in the other run’s prediction interval."
    )


def matched_again(cells: Cells) -> tuple[str, str]:
    """Count verdicts beside every control that came out the same in another run by matched gain."""
    rows = [row[1:] for row in cells(0, "", "`") if len(row) == 5 and (row[1] == "yes" or row[1][0] in "<≈")]
    verdicts = [[said == "yes" for said in row] for row in rows]
    pairs = [pair for row in verdicts for pair in combinations(row, 2)]
    return f"{sum(one == other for one, other in pairs)} of {len(pairs)}", (
        f"answers to “does it beat every control?” are the same in pairs of {len(verdicts[0])} runs by matched gain, "
        "of disjoint seeds and networks, one of them in float32."
    )


def coverage(cells: Cells) -> tuple[str, str]:
    """Say how often the intervals hold the truth where it is known."""
    row = cells(0, "3 references x 1 training", "")[0]
    return f"{row[2].partition(' ')[0]} %", (
        f"of the 95 % intervals hold the true gain on synthetic boards of three networks; {row[8]} % of the words "
        "better and worse are wrong."
    )


FINDINGS = (
    Finding(
        "protocols",
        "Is the better map found where it is known?",
        "python -m studies.protocols.run",
        generated,
        "tables.md",
    ),
    Finding(
        "known_order", "Is the better map found where it is known?", "python -m studies.known_order.run", photographs
    ),
    Finding("corpus", "Can a map win without asking a network?", "python -m studies.corpus.run", corpus),
    Finding("replication", "Does it come out the same again?", "python -m studies.replication.run --store DIR", again),
    Finding(
        "replication",
        "Does it come out the same again?",
        "python -m studies.replication.matched --store DIR",
        matched_again,
    ),
    Finding("coverage", "Do the intervals hold?", "python -m studies.coverage.run", coverage),
)


def cells_of(page: str) -> Cells:
    """Return a function that finds rows of a page's tables: by a cell, if a text is given, and how the first begins."""
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return lambda at, text, first: [r for r in rows if len(r) > at and text in ("", r[at]) and r[0].startswith(first)]


def trust() -> dict[str, Any]:
    """Return the findings, the corrections and the limits of all studies."""
    corrections = (ROOT / "docs/corrections.md").read_text("utf-8")
    return {
        "findings": [_plain(finding) for finding in FINDINGS],
        "corrections": [
            {"said": _text(said), "holds": _text(holds)} for said, holds in _CORRECTION.findall(corrections)
        ],
        "limits": [
            {"study": page.parent.name, "text": _text(" ".join(found))}
            for page in sorted(ROOT.glob("studies/*/README.md"))
            for found in _LIMITS.findall(page.read_text("utf-8"))
        ],
    }


def _plain(finding: Finding) -> dict[str, str]:
    page = f"studies/{finding.study}/{finding.page}"
    number, words = finding.said(cells_of((ROOT / page).read_text("utf-8")))
    return {"title": finding.title, "number": number, "words": words, "command": finding.command, "page": page}


def _text(markdown: str) -> str:
    """Return a sentence without the marks of Markdown."""
    return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", markdown).replace("**", "").replace("`", "").replace("\\", "").strip()


def main() -> None:
    """Write the file."""
    program(__doc__).parse_args()
    TRUST.write_text(json.dumps(trust(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
