"""Compare kinds of augmentation and lengths of training: accuracy on degraded images and on masks alone.

The accuracies are measured on held-out training images. Run `python -m studies.augmentation.run` to write the table of
results.json into README.md. The history has the program that trained the networks:
`git show c9528ed:studies/augmentation/run.py`.
"""

import json
from itertools import product
from pathlib import Path

from roarbench.common.text import MISSING, format_markdown_table, format_percent_number
from studies.page import write_shipped_tables

FOLDER = Path(__file__).parent
KINDS = ("none", "flip", "shift 2", "shift 4", "shift 8", "crop")  # shifts and crops also have flips
LENGTHS = (3, 6, 12, 24)  # epochs
NAMES = {"none": "untouched", "random": "Random", "grad": "GRAD", "sgsq-grad": "SG-SQ", "var-grad": "VAR"}


def make_shipped_tables() -> dict[str, str]:
    """Make the table of accuracies in percent, on images / on masks alone, for the first explained network."""
    lines = json.loads((FOLDER / "results.json").read_text("utf-8"))
    accuracies = {tuple(line[1:5]): line[5] for line in lines if line[0] == 0}

    def format_cell(epochs: int, kind: str, row: str) -> str:
        images, masks = (format_percent_number(accuracies.get((epochs, kind, row, alone))) for alone in (False, True))
        return images if images == masks == MISSING or row == "none" else f"{images} / {masks}"

    rows = [[kind, str(n), *(format_cell(n, kind, row) for row in NAMES)] for kind, n in product(KINDS, LENGTHS)]
    measured = (row for row in rows if set(row[2:]) - {MISSING})
    return {"outcomes": format_markdown_table(("augmentation", "epochs", *NAMES.values()), measured)}


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_shipped_tables)
