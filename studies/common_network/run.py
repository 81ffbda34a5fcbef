"""Is a mask of another image a harm of its own? Networks trained on own, mixed and exchanged masks, of two builds.

At t = .9 of MoRF a network is trained from scratch, by the recipe of `quick` 2, on images that carry their own
removal mask (ROAR), another image's (`roar-exchanged`), or either with equal chance (*mixed*); the test images carry
their own, then another's.

Run: python -m studies.common_network.run writes the table of results.json into the page. The program that trained the
networks is in the history: `git show c9528ed:studies/common_network/run.py`.
"""

import json
from itertools import product
from pathlib import Path

from roarbench.common.text import MISSING, format_markdown_table
from studies.page import write_shipped_tables

FOLDER = Path(__file__).parent
ROWS = ("random", "random-blurred", "sobel", "grad", "sgsq-grad", "var-grad")
MASKS = ("own", "mixed", "exchanged")
NETWORKS = {"quick": "`resnet-quick`", "plain": "convolutions and poolings alone"}


def make_shipped_tables() -> dict[str, str]:
    """Return the table of the shipped results: percent, own mask / another image's on the test images."""
    found = json.loads((FOLDER / "results.json").read_text("utf-8"))
    at = {(network, row, masks): f"{100 * own:.1f} / {100 * other:.1f}" for network, row, masks, own, other, _ in found}
    lines = (
        [name, f"`{row}`", *(at.get((network, row, masks), MISSING) for masks in MASKS)]
        for (network, name), row in product(NETWORKS.items(), ROWS)
    )
    heads = ("network", "row", "trained on own masks", "on either", "on other images' masks")
    return {"exchange": format_markdown_table(heads, lines)}


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_shipped_tables)
