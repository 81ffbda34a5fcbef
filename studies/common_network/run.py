"""Is a mask of another image a harm of its own? Networks trained on own, mixed and exchanged masks, of two builds.

At t = .9 of MoRF a network is trained from scratch, by the recipe of `quick` 2, on images that carry their own
removal mask (ROAR), another image's (`roar-exchanged`), or either with equal chance (*mixed*); the test images carry
their own, then another's.

Run: python -m studies.common_network.run writes the table of results.json into the page. The program that trained the
networks is in the history: `git show c9528ed:studies/common_network/run.py`.
"""

import json
from pathlib import Path

from roarbench.text import MISSING, markdown_table
from studies.page import write_recorded

FOLDER = Path(__file__).parent
ROWS = ("random", "random-blurred", "sobel", "grad", "sgsq-grad", "var-grad")
MASKS = ("own", "mixed", "exchanged")
NETWORKS = {"quick": "`resnet-quick`", "plain": "convolutions and poolings alone"}


def table(found: list[list[object]]) -> str:
    """Return accuracies in percent, own mask / another image's on the test images; a line for each row and network."""
    at = {(network, row, masks): (own, other) for network, row, masks, own, other, _ in found}
    lines = []
    for network, name in NETWORKS.items():
        for row in ROWS:
            pairs = [at.get((network, row, masks)) for masks in MASKS]
            lines.append([name, f"`{row}`", *(_percent(pair) for pair in pairs)])
    heads = ["network", "row", "trained on own masks", "on either", "on other images' masks"]
    return markdown_table(heads, lines)


def _percent(pair: tuple[object, object] | None) -> str:
    return MISSING if pair is None else " / ".join(f"{100 * float(str(each)):.1f}" for each in pair)


def recorded() -> dict[str, str]:
    """Return the table of the shipped results."""
    return {"exchange": table(json.loads((FOLDER / "results.json").read_text("utf-8")))}


if __name__ == "__main__":
    write_recorded(__doc__, FOLDER / "README.md", recorded)
