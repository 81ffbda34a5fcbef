"""Where estimators were published: the papers behind each base and each form, with BibTeX."""

from typing import NamedTuple


class Paper(NamedTuple):
    """One publication.

    Attributes:
        key: Its BibTeX key.
        kind: Its BibTeX entry type.
        authors: Full names.
        title: As printed.
        venue: Journal, conference or series.
        year: Of publication.
        eprint: Its number on arXiv; empty where it has none.
    """

    key: str
    kind: str
    authors: tuple[str, ...]
    title: str
    venue: str
    year: int
    eprint: str = ""

    @property
    def text(self) -> str:
        """The paper in one line."""
        number = f", arXiv:{self.eprint}" if self.eprint else ""
        return f"{', '.join(self.authors)}: {self.title}. {self.venue}, {self.year}{number}"

    @property
    def bibtex(self) -> str:
        """The paper as a BibTeX entry."""
        place = {"article": "journal", "inproceedings": "booktitle"}.get(self.kind, "howpublished")
        fields = {"title": f"{{{self.title}}}", "author": " and ".join(self.authors), place: self.venue}
        fields |= {"year": str(self.year)} | ({"eprint": self.eprint, "archiveprefix": "arXiv"} if self.eprint else {})
        lines = [f"  {name:13} = {{{value}}}" for name, value in fields.items()]
        return "\n".join([f"@{self.kind}{{{self.key},", ",\n".join(lines), "}"])


HOOKER = Paper(
    "hooker2019benchmark",
    "inproceedings",
    ("Sara Hooker", "Dumitru Erhan", "Pieter-Jan Kindermans", "Been Kim"),
    "A Benchmark for Interpretability Methods in Deep Neural Networks",
    "Advances in Neural Information Processing Systems",
    2019,
    "1806.10758",
)
_BAEHRENS = Paper(
    "baehrens2010explain",
    "article",
    (
        "David Baehrens",
        "Timon Schroeter",
        "Stefan Harmeling",
        "Motoaki Kawanabe",
        "Katja Hansen",
        "Klaus-Robert Müller",
    ),
    "How to Explain Individual Classification Decisions",
    "Journal of Machine Learning Research 11",
    2010,
    "0912.1128",
)
_SIMONYAN = Paper(
    "simonyan2014deep",
    "inproceedings",
    ("Karen Simonyan", "Andrea Vedaldi", "Andrew Zisserman"),
    "Deep Inside Convolutional Networks: Visualising Image Classification Models and Saliency Maps",
    "ICLR Workshop",
    2014,
    "1312.6034",
)
_SPRINGENBERG = Paper(
    "springenberg2015striving",
    "inproceedings",
    ("Jost Tobias Springenberg", "Alexey Dosovitskiy", "Thomas Brox", "Martin Riedmiller"),
    "Striving for Simplicity: The All Convolutional Net",
    "ICLR Workshop",
    2015,
    "1412.6806",
)
_SUNDARARAJAN = Paper(
    "sundararajan2017axiomatic",
    "inproceedings",
    ("Mukund Sundararajan", "Ankur Taly", "Qiqi Yan"),
    "Axiomatic Attribution for Deep Networks",
    "International Conference on Machine Learning",
    2017,
    "1703.01365",
)
_SMILKOV = Paper(
    "smilkov2017smoothgrad",
    "misc",
    ("Daniel Smilkov", "Nikhil Thorat", "Been Kim", "Fernanda Viégas", "Martin Wattenberg"),
    "SmoothGrad: removing noise by adding noise",
    "arXiv",
    2017,
    "1706.03825",
)
_ADEBAYO = Paper(
    "adebayo2018local",
    "misc",
    ("Julius Adebayo", "Justin Gilmer", "Ian Goodfellow", "Been Kim"),
    "Local Explanation Methods for Deep Neural Networks Lack Sensitivity to Parameter Values",
    "arXiv",
    2018,
    "1810.03307",
)
_SOBEL = Paper(
    "sobel1968isotropic",
    "misc",
    ("Irwin Sobel", "Gary Feldman"),
    "A 3x3 Isotropic Gradient Operator for Image Processing",
    "Talk at the Stanford Artificial Intelligence Project",
    1968,
)
_BASES = {
    "random": (HOOKER,),
    "sobel": (_SOBEL, HOOKER),
    "grad": (_BAEHRENS, _SIMONYAN),
    "gb": (_SPRINGENBERG,),
    "ig": (_SUNDARARAJAN,),
}
_FORMS = {
    "squared": (HOOKER,),
    "smooth": (_SMILKOV,),
    "smooth-squared": (_SMILKOV, HOOKER),
    "smoothed-square": (HOOKER,),
    "variance": (_ADEBAYO,),
}


def papers(base: str, form: str) -> tuple[Paper, ...]:
    """The papers of an estimator: of its base, then of what is done with it."""
    return tuple(dict.fromkeys((*_BASES.get(base, ()), *_FORMS.get(form, ()))))
