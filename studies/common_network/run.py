"""Test whether another image's mask harms a network by itself, with networks of two architectures.

At t = .9 of MoRF, a network is trained from scratch by the recipe of `quick` 2. The training images have their own
removal masks (ROAR), another image's masks (`roar-exchanged`), or one of both with equal probability (*mixed*). The
network is tested on images with their own masks, and on images with another image's masks.

Run `python -m studies.common_network.run` to write the table of results.json into README.md. The history has the
program that trained the networks: `git show c9528ed:studies/common_network/run.py`.
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
    """Make the table of accuracies in percent, with own masks / another image's masks on the test images."""
    results = json.loads((FOLDER / "results.json").read_text("utf-8"))
    cells = {tuple(settings): f"{100 * own:.1f} / {100 * other:.1f}" for *settings, own, other, _ in results}
    lines = (
        [name, f"`{row}`", *(cells.get((network, row, masks), MISSING) for masks in MASKS)]
        for (network, name), row in product(NETWORKS.items(), ROWS)
    )
    heads = ("network", "row", "trained on own masks", "on either", "on other images' masks")
    return {"exchange": format_markdown_table(heads, lines)}


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_shipped_tables)
