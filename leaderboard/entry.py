"""One estimator in all suites: its papers, its runs, and the command that repeats them."""

import shlex
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from leaderboard.source import lookup_estimator
from leaderboard.text import plain, plain_lines
from roarbench.analysis.boards import SuiteResults
from roarbench.estimators import CUDA, METHODS, NOISY, TRUSTED, Estimator
from roarbench.estimators.parameters import PARAMETERS, written
from roarbench.plan.runs import describe
from roarbench.store.results import Result
from roarbench.submissions.file import Submission


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
_BASES = {
    "random": (HOOKER,),
    "sobel": (_SOBEL, HOOKER),
    "grad": (_BAEHRENS, _SIMONYAN),
    "gb": (_SPRINGENBERG,),
    "ig": (_SUNDARARAJAN,),
    "input-x-grad": (_SHRIKUMAR_2016,),
    "deeplift": (_SHRIKUMAR_2017,),
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


_COMMON = ("test images", "code", "libraries", "machine", "recipe")  # mostly the same for all runs of an entry
_SOURCES = {
    **dict.fromkeys(METHODS, "roarbench/estimators/through_captum.py"),
    **dict.fromkeys(("gradient-shap", "kernel-shap", "rise"), "roarbench/estimators/sampled.py"),
    **dict.fromkeys(("layer-cam", "score-cam"), "roarbench/estimators/blocks.py"),
    **dict.fromkeys(("random-smooth", "centre", "contrast"), "roarbench/estimators/controls.py"),
    "random": "roarbench/estimators/controls.py",
    "sobel": "roarbench/estimators/controls.py",
    "leak": "roarbench/estimators/controls.py",
    "truth": "roarbench/datasets/planted.py",
}
_KEY = 12  # hexadecimal digits of a run's key that a command shows: enough to tell 25,000 runs apart


@dataclass(frozen=True)
class Profile:
    """Facts about an estimator.

    Attributes:
        estimator: Its id.
        about: One sentence.
        control: Never looks at the model.
        authors: Of these papers.
        papers: Where its base and its form were published, one line each.
        bibtex: The same for a bibliography; empty where there is none.
        source: File of the repository that computes it.
        settings: Its parameters in words; empty where it has none.
        claim: What the authors of a submission say that it is good for; empty where they do not.
        code: The file that was submitted; empty for what comes with the benchmark.
    """

    estimator: str
    about: str
    control: bool
    authors: str
    papers: tuple[str, ...]
    bibtex: str
    source: str
    settings: str
    claim: str = ""
    code: str = ""


def profile(name: str, suites: Iterable[SuiteResults] = ()) -> Profile:
    """Return what is known of an estimator, as plain text.

    Args:
        name: Its id.
        suites: Those that may have a submission of this id.
    """
    found = [each.submissions[name] for each in suites if name in each.submissions]
    return _submitted(name, found[0]) if found else _built_in(name)


def _submitted(name: str, submission: Submission) -> Profile:
    return Profile(
        estimator=plain(name),
        about=plain(submission.description),
        control=False,
        authors=plain(submission.authors),
        papers=(plain(submission.paper),) if submission.paper else (),
        bibtex="",
        source=f"submitted file, sha256 {submission.sha256}",
        settings="",
        claim=plain(submission.claim),
        code=plain_lines(submission.source.decode("utf-8-sig", errors="replace")),
    )


def _built_in(name: str) -> Profile:
    row = lookup_estimator(name)
    published = () if row.twin else papers(row.base, row.form)  # a blurred random map is no one's proposal
    source = _SOURCES.get(row.base) or f"roarbench/estimators/{'gradients' if row.form == 'base' else 'ensembles'}.py"
    return Profile(
        estimator=plain(name),
        about=row.about[:1].upper() + plain(row.about)[1:],
        control=row.control,
        authors=", ".join(dict.fromkeys(author for paper in published for author in paper.authors)),
        papers=tuple(paper.text for paper in published),
        bibtex="\n\n".join(paper.bibtex for paper in published),
        source=source if row.base and not row.submitted else "",
        settings=_settings(row),
    )


def _settings(row: Estimator) -> str:
    value = row.value
    parts = [f"{value('steps')} steps from {value('baseline')}"] if row.base == "ig" else []
    if row.form in NOISY:
        parts.append(f"{value('samples')} noisy copies, noise {written(value('noise'))} of the image's range")
    if row.base in METHODS:
        parts += [f"{name} {written(value(name))}: {PARAMETERS[name].about}" for name in row.parameters]
    return "; ".join(parts)


def command(suite_results: SuiteResults, name: str) -> str:
    """Return the command that repeats all runs of an estimator in a suite, in an empty store."""
    row = lookup_estimator(name)
    asked = "--submission FILE" if row.submitted else f"--estimators {shlex.quote(plain(name))}"
    trust = " --trust-submission" if TRUSTED in row.marks else ""
    device = " --submission-device cuda" if CUDA in row.marks else ""
    limit = f" --limit {suite_results.limit}" if suite_results.limit else ""
    return f"roarbench run --suite {suite_results.suite.called} {asked}{trust}{device}{limit} --store NEW-FOLDER"


def runs_of(suite_results: SuiteResults, name: str) -> list[dict[str, Any]]:
    """Return the provenance of each run of an estimator, as flat records in the suite's order."""
    found = [(point, result) for point, result in suite_results.results.items() if point.cell.estimator == name]
    return [{"run": plain(describe(point)), **_made(result), **_origin(result)} for point, result in found]


def _made(result: Result) -> dict[str, Any]:
    return {
        "accuracy": result.correct / result.total,
        "test images": result.total,
        "wall seconds": result.seconds,
        "when": f"{result.created:%Y-%m-%d %H:%M} UTC",
        "command": f"roarbench reproduce {result.run.key[:_KEY]} --store STORE",
    }


def _origin(result: Result) -> dict[str, str]:
    made = result.provenance
    parts = (_part(name, value) for name, value in made.hardware.items())
    return {
        "code": plain(made.code_version),
        "libraries": plain(", ".join(f"{name} {number}" for name, number in made.versions.items())),
        "machine": plain(", ".join(parts)),
        "recipe": plain(result.run.recipe),
    }


def _part(name: str, value: object) -> str:
    return f"{value} cores" if name == "cores" else str(value)


def shared(runs: list[dict[str, Any]]) -> tuple[dict[str, str], list[dict[str, Any]]]:
    """Return what all runs have in common, and of each run the rest: a table says the same thing once."""
    same = {key: str(runs[0][key]) for key in _COMMON if runs and len({run[key] for run in runs}) == 1}
    return same, [{key: value for key, value in run.items() if key not in same} for run in runs]


def machines(suite_results: SuiteResults) -> list[str]:
    """Return code and machines behind a suite's results, the most used first, each with its number of runs."""
    made = Counter(f"{r['code']} on {r['machine']}" for r in map(_origin, suite_results.results.values()))
    return [f"{name} ({count} runs)" for name, count in made.most_common()]
