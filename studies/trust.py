"""Write leaderboard/trust.json, the texts of the board's trust page, with numbers from the tables of studies' pages.

python -m studies.trust
"""

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

from roarbench.common.text import join_with_and
from studies.page import make_parser

ROOT = Path(__file__).parents[1]
TRUST = ROOT / "leaderboard" / "trust.json"
COMMIT = "fbd8b7b4"  # has the programs of settled studies
KNOWN = "Does matched gain find the better map if it is known?"
AGAIN = "Are the results the same in another run?"
ELSEWHERE = "Are the results the same on another machine?"
_LIMITS = re.compile(
    r"^\*\*(?:Left out|Where it falls short|What it cannot do)\.\*\* (.+)$|^(What it cannot tell: .+)$", re.M
)
_CORRECTION = re.compile(r'^\| .+? \| "(.+?)" \| .+? \| (.+?) \([^()]+\) \|$', re.M)

Finding = dict[str, str]


def make_finding(title: str, page: str, call: str, number: str, words: str, commit: str = COMMIT) -> Finding:
    """Make a record of one result of a study; `title` is the question, `words` says what `number` counts.

    `commit` has the program; it is empty if this source has it.
    """
    command = f"git checkout {commit}; python -m studies.{call}" if commit else f"python -m studies.{call}"
    return {"title": title, "number": number, "words": words, "command": command, "page": f"studies/{page}"}


def find_rows(page: str, first: str, column: int = 0, text: str = "") -> list[list[str]]:
    """Find the table rows of a page whose first cell begins with `first`, and that have `text` in a column if given."""
    lines = (ROOT / "studies" / page).read_text("utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith(f"| {first}")]
    return [row for row in rows if len(row) > column and text in ("", row[column])]


def sum_column(rows: list[list[str]], column: int) -> int:
    return sum(int(row[column]) for row in rows)


def count_ordered_photographs() -> Finding:
    """Count the correctly ordered pairs of a map and a map that was made worse."""
    page = "known_order/README.md"
    rows = find_rows(page, "matched |")
    maps, null = ([row for row in rows if (row[1] == "random-blurred") is blurred] for blurred in (False, True))
    (right, wrong, undecided), nulls = ([sum_column(part, column) for column in (-3, -2, -1)] for part in (maps, null))
    words = (
        f"pairs of maps of photographs, one of them deliberately made worse, are ordered correctly by matched gain, "
        f"{wrong} wrongly. Of {sum(nulls)} pairs without information it orders {sum(nulls[:2])}."
    )
    return make_finding(KNOWN, page, "known_order.run", f"{right} of {right + wrong + undecided}", words)


def count_corpus_winners() -> Finding:
    page = "corpus/README.md"
    ((_, maps, random, beats, *_),) = find_rows(page, "matched |")
    words = (
        f"maps made without a network beat every control by matched gain. {random} of them are better than Random, "
        "so that verdict alone is no evidence."
    )
    return make_finding(
        "Does a map made without a network beat every control?", page, "corpus.run", f"{beats} of {maps}", words
    )


def count_repeated_roar_verdicts() -> Finding:
    page = "replication/README.md"
    ((_, _, pairs, inside, _, verdicts),) = find_rows(page, "`roar`", 1, "references crossed, as here")
    same, opposed = verdicts.split(" / ")
    words = (
        f"verdicts against all controls are equal in {pairs} pairs of runs with other networks and seeds, {opposed} "
        f"opposed, under ROAR; {inside.partition(' (')[0]} gains lie in the other run’s prediction interval."
    )
    return make_finding(AGAIN, page, "replication.run --store DIR", same.partition(" (")[0], words)


def count_repeated_matched_verdicts() -> Finding:
    """Count the verdicts "beats every control" under matched gain that are the same in another run."""
    page = "replication/README.md"
    rows = [row[1:] for row in find_rows(page, "`") if len(row) == 5 and (row[1] == "yes" or row[1][0] in "<≈")]
    pairs = [(one == "yes", other == "yes") for row in rows for one, other in combinations(row, 2)]
    words = (
        f"verdicts “beats every control” are equal in pairs of {len(rows[0])} runs by matched gain, "
        "with different seeds and networks; one run computed in float32."
    )
    same = sum(one == other for one, other in pairs)
    return make_finding(AGAIN, page, "replication.matched --store DIR", f"{same} of {len(pairs)}", words)


def count_equal_gains_on_other_machines(gain: str) -> Finding:
    """Count the gains, ROAR or own-network gain, that differ by at most their error on two machines."""
    page = "paper/README.md"
    rows = [row for data in ("imagenette64 |", "cifar10 |", "fashion-mnist |") for row in find_rows(page, data)]
    compared = [row for row in rows if len(row) == 9 and row[1].startswith(gain)]
    inside, total = (sum(int(row[6].split(" of ")[part]) for row in compared) for part in (0, 1))
    settled, opposed = (sum(int(row[5].split(", ")[part].split()[0]) for row in compared) for part in (0, 1))
    names = join_with_and(dict.fromkeys(row[0] for row in compared))
    machines = " or ".join(dict.fromkeys(row[2] for row in compared))
    words = (
        f"{'ROAR gains' if gain == 'ROAR' else 'own-network gains'} on {names} differ from those of another machine "
        f"({machines}) by at most their error, and by {max(float(row[7]) for row in compared):.1f} points at most. Of "
        f"{settled} pairs of rows that differ significantly on both machines, {opposed} are in opposite order."
    )
    return make_finding(ELSEWHERE, page, "paper", f"{inside} of {total}", words, commit="")


def read_coverage() -> Finding:
    page = "coverage/README.md"
    _, _, equal, differ = find_rows(page, "3 networks |")  # after two tables beside the method before
    (held, *_), (discoveries, *_), (wrong, *_) = (cell.split() for cell in (differ[1], differ[7], equal[6]))
    words = (
        "of the 95 % intervals contain the true gain on simulated tables of three networks; "
        f"{discoveries} % of the verdicts better and worse are wrong. "
        f"If all estimators equal Random, {wrong} % of tables have a wrong one."
    )
    call = "coverage.run --tables 100"
    return make_finding("Do intervals contain the true gain?", page, call, f"{held} %", words, commit="")


def make_trust_record() -> dict[str, Any]:
    corrections = (ROOT / "docs/corrections.md").read_text("utf-8")
    return {
        "findings": [
            count_ordered_photographs(),
            count_corpus_winners(),
            count_repeated_roar_verdicts(),
            count_repeated_matched_verdicts(),
            count_equal_gains_on_other_machines("ROAR"),
            count_equal_gains_on_other_machines("own-network gain"),
            read_coverage(),
        ],
        "corrections": [
            {"said": _strip_markdown(said), "holds": _strip_markdown(holds)}
            for said, holds in _CORRECTION.findall(corrections)
        ],
        "limits": [
            {"study": page.parent.name, "text": _strip_markdown(" ".join(found))}
            for page in sorted(ROOT.glob("studies/*/README.md"))
            for found in _LIMITS.findall(page.read_text("utf-8"))
        ],
    }


def _strip_markdown(markdown: str) -> str:
    return re.sub(r"\[(.+?)\]\(.+?\)", r"\1", markdown).replace("**", "").replace("`", "").replace("\\", "").strip()


if __name__ == "__main__":
    make_parser(__doc__).parse_args()
    TRUST.write_text(json.dumps(make_trust_record(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
