"""Tables of the documents that are made of declarations.

    python tests/test_made_tables.py

writes them.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from roarbench.datasets import DatasetRecord
from roarbench.datasets.catalogue import DATASETS
from roarbench.protocols import SHOWN
from roarbench.protocols.declaration import Protocol
from roarbench.text import markdown_table, size

DOCS = Path(__file__).parents[1] / "docs"


def protocol(of: Protocol) -> tuple[str, ...]:
    return f"`{of.name}`", of.question, of.limits, of.use


def data(of: DatasetRecord) -> tuple[str, ...]:
    shape = f"{of.channels} columns" if of.tabular else " x ".join(map(str, of.shape))
    source = f"`{of.hub}`{', gated' * of.gated}" if of.hub else "generated"
    return (
        *(f"`{of.name}`", of.about, shape, f"{of.classes:,}", f"{of.train_images:,} / {of.test_images:,}"),
        size((of.train_images + of.test_images) * of.channels * of.size**2),
        "comes with the package" if of.bundled else source,
    )


def table(heads: str, rows: Iterable[tuple[str, ...]]) -> list[str]:
    return markdown_table(heads.split(", "), ([cell.replace("|", r"\|") for cell in row] for row in rows)).splitlines()


TABLES = {  # by page
    "protocols.md": table("protocol, question, fails where, use it", map(protocol, SHOWN.values())),
    "data.md": table("data set, what, shape, classes, train / test, decoded, from", map(data, DATASETS.values())),
}


@pytest.mark.parametrize("page", TABLES)
def test_the_page_has_the_table(page: str) -> None:
    assert "\n".join(TABLES[page]) in (DOCS / page).read_text(), f"run: python tests/{Path(__file__).name}"


if __name__ == "__main__":
    for page, lines in TABLES.items():
        written = (DOCS / page).read_text().splitlines()
        first = written.index(lines[0])
        last = next(n for n in range(first, len(written)) if not written[n].startswith("|"))
        (DOCS / page).write_text("\n".join([*written[:first], *lines, *written[last:]]) + "\n")
