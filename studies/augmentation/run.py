"""How much augmentation and how long? Accuracy on degraded images and on masks alone, on held-out training images.

Run: python -m studies.augmentation.run writes the table of results.json into the page. The program that trained the
networks is in the history: `git show c9528ed:studies/augmentation/run.py`.
"""

import json
from itertools import product
from pathlib import Path

from roarbench.common.text import MISSING, format_markdown_table, format_percent_number
from studies.page import write_shipped_tables

FOLDER = Path(__file__).parent
KINDS = ("none", "flip", "shift 2", "shift 4", "shift 8", "crop")  # all but the first two with a flip, too
LENGTHS = (3, 6, 12, 24)  # epochs
NAMES = {"none": "untouched", "random": "Random", "grad": "GRAD", "sgsq-grad": "SG-SQ", "var-grad": "VAR"}


def make_shipped_tables() -> dict[str, str]:
    """Return the table of the shipped results: percent, images / masks alone, of the first reference."""
    lines = json.loads((FOLDER / "results.json").read_text("utf-8"))
    found = {tuple(line[1:5]): line[5] for line in lines if line[0] == 0}

    def cell(epochs: int, kind: str, row: str) -> str:
        images, masks = (format_percent_number(found.get((epochs, kind, row, alone))) for alone in (False, True))
        return images if images == masks == MISSING or row == "none" else f"{images} / {masks}"

    made = [[kind, str(n), *(cell(n, kind, row) for row in NAMES)] for kind, n in product(KINDS, LENGTHS)]
    shown = (line for line in made if set(line[2:]) - {MISSING})
    return {"outcomes": format_markdown_table(("augmentation", "epochs", *NAMES.values()), shown)}


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_shipped_tables)
