"""The publications that estimators come from."""

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
        """Return the paper in one line."""
        number = f", arXiv:{self.eprint}" if self.eprint else ""
        return f"{', '.join(self.authors)}: {self.title}. {self.venue}, {self.year}{number}"

    @property
    def bibtex(self) -> str:
        """Return the paper as a BibTeX entry."""
        place = {"article": "journal", "inproceedings": "booktitle", "incollection": "booktitle"}.get(
            self.kind, "howpublished"
        )
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
_BACH = Paper(
    "bach2015pixelwise",
    "article",
    (
        "Sebastian Bach",
        "Alexander Binder",
        "Grégoire Montavon",
        "Frederick Klauschen",
        "Klaus-Robert Müller",
        "Wojciech Samek",
    ),
    "On Pixel-Wise Explanations for Non-Linear Classifier Decisions by Layer-Wise Relevance Propagation",
    "PLoS ONE 10(7)",
    2015,
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
_SHRIKUMAR_2016 = Paper(
    "shrikumar2016not",
    "misc",
    ("Avanti Shrikumar", "Peyton Greenside", "Anna Shcherbina", "Anshul Kundaje"),
    "Not Just a Black Box: Learning Important Features Through Propagating Activation Differences",
    "arXiv",
    2016,
    "1605.01713",
)
_SHRIKUMAR_2017 = Paper(
    "shrikumar2017learning",
    "inproceedings",
    ("Avanti Shrikumar", "Peyton Greenside", "Anshul Kundaje"),
    "Learning Important Features Through Propagating Activation Differences",
    "International Conference on Machine Learning",
    2017,
    "1704.02685",
)
_LUNDBERG = Paper(
    "lundberg2017unified",
    "inproceedings",
    ("Scott M. Lundberg", "Su-In Lee"),
    "A Unified Approach to Interpreting Model Predictions",
    "Advances in Neural Information Processing Systems",
    2017,
    "1705.07874",
)
_SELVARAJU = Paper(
    "selvaraju2017gradcam",
    "inproceedings",
    (
        "Ramprasaath R. Selvaraju",
        "Michael Cogswell",
        "Abhishek Das",
        "Ramakrishna Vedantam",
        "Devi Parikh",
        "Dhruv Batra",
    ),
    "Grad-CAM: Visual Explanations from Deep Networks via Gradient-Based Localization",
    "International Conference on Computer Vision",
    2017,
    "1610.02391",
)
_DRAELOS = Paper(
    "draelos2020hirescam",
    "misc",
    ("Rachel Lea Draelos", "Lawrence Carin"),
    "Use HiResCAM instead of Grad-CAM for faithful explanations of convolutional neural networks",
    "arXiv",
    2020,
    "2011.08891",
)
_JIANG = Paper(
    "jiang2021layercam",
    "article",
    ("Peng-Tao Jiang", "Chang-Bin Zhang", "Qibin Hou", "Ming-Ming Cheng", "Yunchao Wei"),
    "LayerCAM: Exploring Hierarchical Class Activation Maps for Localization",
    "IEEE Transactions on Image Processing 30",
    2021,
)
_WANG = Paper(
    "wang2020scorecam",
    "inproceedings",
    ("Haofan Wang", "Zifan Wang", "Mengnan Du", "Fan Yang", "Zijian Zhang", "Sirui Ding", "Piotr Mardziel", "Xia Hu"),
    "Score-CAM: Score-Weighted Visual Explanations for Convolutional Neural Networks",
    "CVPR Workshops",
    2020,
    "1910.01279",
)
_ZEILER = Paper(
    "zeiler2014visualizing",
    "inproceedings",
    ("Matthew D. Zeiler", "Rob Fergus"),
    "Visualizing and Understanding Convolutional Networks",
    "European Conference on Computer Vision",
    2014,
    "1311.2901",
)
_PETSIUK = Paper(
    "petsiuk2018rise",
    "inproceedings",
    ("Vitali Petsiuk", "Abir Das", "Kate Saenko"),
    "RISE: Randomized Input Sampling for Explanation of Black-box Models",
    "British Machine Vision Conference",
    2018,
    "1806.07421",
)
_SHAPLEY = Paper(
    "shapley1953value",
    "incollection",
    ("Lloyd S. Shapley",),
    "A Value for n-Person Games",
    "Contributions to the Theory of Games II, Annals of Mathematics Studies 28",
    1953,
)
_BASES = {
    "random": (HOOKER,),
    "sobel": (_SOBEL, HOOKER),
    "grad": (_BAEHRENS, _SIMONYAN),
    "gb": (_SPRINGENBERG,),
    "ig": (_SUNDARARAJAN,),
    "input-x-grad": (_SHRIKUMAR_2016,),
    "deeplift": (_SHRIKUMAR_2017,),
    "lrp": (_BACH,),
    "gradient-shap": (_LUNDBERG, _SUNDARARAJAN, _SMILKOV),
    "gradcam": (_SELVARAJU,),
    "guided-gradcam": (_SELVARAJU, _SPRINGENBERG),
    "hires-cam": (_DRAELOS,),
    "layer-cam": (_JIANG,),
    "score-cam": (_WANG,),
    "occlusion": (_ZEILER,),
    "feature-ablation": (_ZEILER,),
    "kernel-shap": (_LUNDBERG,),
    "rise": (_PETSIUK,),
    "shapley": (_SHAPLEY, _LUNDBERG),
}
_FORMS = {
    "squared": (HOOKER,),
    "smooth": (_SMILKOV,),
    "smooth-squared": (_SMILKOV, HOOKER),
    "smoothed-square": (HOOKER,),
    "variance": (_ADEBAYO,),
}


def papers(base: str, form: str) -> tuple[Paper, ...]:
    """Return the papers of an estimator: of its base, then of what is done with it."""
    return tuple(dict.fromkeys((*_BASES.get(base, ()), *_FORMS.get(form, ()))))
