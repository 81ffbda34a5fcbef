"""Publications that estimators come from, as BibTeX has them."""

import re
from dataclasses import dataclass

_PLACES = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle"}
_FIELD = re.compile(r"(\w+)\s*=\s*\{(.*?)\}\s*(?=,\s*\w+\s*=|,?\s*\}\s*$)", re.DOTALL)


@dataclass(frozen=True)
class Paper:
    """One publication."""

    source: str  # its BibTeX entry: author, title, year, journal, booktitle or howpublished, and eprint if it has one

    @property
    def fields(self) -> dict[str, str]:
        """Return the entry's fields by name."""
        return {name: " ".join(value.strip("{}").split()) for name, value in _FIELD.findall(self.source)}

    @property
    def text(self) -> str:
        """Return the paper in one line."""
        fields = self.fields
        authors = fields["author"].replace(" and ", ", ")
        number = f", arXiv:{fields['eprint']}" if "eprint" in fields else ""
        return f"{authors}: {fields['title']}. {fields[self._place]}, {fields['year']}{number}"

    @property
    def bibtex(self) -> str:
        """Return the entry with a line for each field, in one order."""
        found = self.fields
        fields = {name: found[name] for name in ("title", "author", self._place, "year")}
        fields["title"] = f"{{{found['title']}}}"
        fields |= {"eprint": found["eprint"], "archiveprefix": "arXiv"} if "eprint" in found else {}
        lines = ",\n".join(f"  {name:13} = {{{value}}}" for name, value in fields.items())
        return f"{self.source.partition(',')[0].strip()},\n{lines}\n}}"

    @property
    def _place(self) -> str:
        return _PLACES.get(self.source.strip().removeprefix("@").partition("{")[0], "howpublished")
