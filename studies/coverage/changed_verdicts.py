"""List in changed-verdicts.md the published verdicts that differ from those of the bootstrap before.

Run with `python -m studies.coverage.changed_verdicts` in a clone with the whole history. Both statistics judge the
results that were published when the bootstrap was replaced.
"""

import argparse
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import roarbench as rb
from roarbench.common.text import format_interval, format_markdown_table
from studies.coverage.before import run_in_copy_of_old_package

WORDS = {"not significantly different": "≈", "better": "better", "worse": "worse"}
OWN_NETWORK_WORDS = {"not significantly different": "not shown", "better": "explains", "worse": "opposes"}
HEADINGS = ["suite", "protocol", "row", "compared with", "old verdict", "new verdict", "p, old and new"]
HEADINGS += ["q, old and new", "old difference", "new difference"]


def judge_published(titles: list[str]) -> dict[str, Any]:
    """Return verdict, p, q and difference of all comparisons, by suite, protocol, row and opponent in one text."""
    try:
        judge_suite = import_module("roarbench.analysis.suite_judges").judge_suite
    except ImportError:  # in the old package
        judge_suite = import_module("roarbench.analysis.bootstrap_draws").SuiteDraws.of
    judged = {}
    for title in titles:
        stored = rb.load_published_results(title).stored
        judges = judge_suite(stored)
        for protocol in stored.list_started_protocols():
            for unit in stored.list_units(protocol):
                board = judges.make_board(protocol, unit)
                for row in board.rows if board else ():
                    for other, found in row.against.items():
                        key = "|".join((title, protocol.name, row.estimator, other, unit))
                        judged[key] = (found.verdict, found.p, found.q, found.difference)
    return judged


def list_titles() -> list[str]:
    """List the suites of the results beside the package, such as `quick@7`."""
    files = json.loads((Path(rb.__file__).parents[1] / "results" / "index.json").read_text("utf-8"))["files"]
    return sorted({"@".join(file["path"].split("/")[:2]) for file in files})


def list_changes(old: dict[str, Any], new: dict[str, Any]) -> str:
    """Return the table of changed verdicts, after a line of counts."""
    lines = []
    for key, before in old.items():
        after = new[key]
        if before[0] == after[0]:
            continue
        suite, protocol, row, other, _ = key.split("|")
        own = protocol.startswith("own-network")
        words = OWN_NETWORK_WORDS if own else WORDS
        ps = [", ".join(f"{judged[number]:.3f}".lstrip("0") for judged in (before, after)) for number in (1, 2)]
        differences = [format_interval(judged[3]) for judged in (before, after)]
        name = suite if suite == "quick@6" else suite.removeprefix("benchmark-").split("@")[0]
        opponent = "0" if own else f"`{other}`"
        lines.append((name, protocol, f"`{row}`", opponent, words[before[0]], words[after[0]], *ps, *differences))
    significant = [sum(judged[0] != "not significantly different" for judged in each.values()) for each in (old, new)]
    counts = f"Of {len(old):,} verdicts, {len(lines)} changed; {significant[0]:,} were significant before, "
    return f"{counts}{significant[1]:,} are now.\n\n{format_markdown_table(HEADINGS, lines)}"


def main() -> None:
    """Write the changed verdicts into the page beside this file, or print all verdicts with `--judge`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", action="store_true", help=argparse.SUPPRESS)
    if parser.parse_args().judge:
        print(json.dumps(judge_published(list_titles())))
        return
    from studies.page import write_tables

    old = run_in_copy_of_old_package("changed_verdicts")
    changes = list_changes(old, judge_published(list(dict.fromkeys(key.split("|")[0] for key in old))))
    write_tables(Path(__file__).with_name("changed-verdicts.md"), {"changed verdicts": changes})


if __name__ == "__main__":
    main()
