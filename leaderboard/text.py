"""The words of the pages, and text from outside made plain."""

import unicodedata
from collections.abc import Iterable

LONGEST = 300  # characters of a text from outside that a page shows


def plain(text: str, longest: int = LONGEST) -> str:
    """Text from outside as one line: no control, escape or direction characters, cut where it is too long."""
    printable = "".join(" " if unicodedata.category(letter)[0] == "C" else letter for letter in text)
    line = " ".join(printable.split())
    return line if len(line) <= longest else line[: longest - 1] + "…"


def plain_lines(text: str) -> str:
    """A file from outside as lines of plain text: what could turn or hide letters is shown as a space."""
    lines = (
        "".join(" " if unicodedata.category(letter)[0] == "C" else letter for letter in line)
        for line in text.expandtabs(4).splitlines()
    )
    return "\n".join(lines)


def signed(points: float) -> str:
    """Accuracy points with their sign; what rounds to nothing is +0.0."""
    return f"{round(points, 1) + 0.0:+.1f}"


PROTOCOLS = {
    "roar": "ROAR: the most important features removed, a new network trained on what is left",
    "kar": "KAR: the least important features removed, a new network trained on what is left",
    "morf": "MoRF, not retrained: the most important features removed, the reference scored as it is",
    "lerf": "LeRF, not retrained: the least important features removed, the reference scored as it is",
    "mask-only": "Mask-only: a network that sees only where features were removed, never an image",
}


def protocol_name(name: str) -> str:
    """What a protocol is called in a sentence: the word that its own begins with."""
    return PROTOCOLS[name].replace(",", ":").partition(":")[0]


HEADINGS = {  # of the board's columns
    "place": "place",
    "estimator": "estimator",
    "gain": "gain",
    "accuracy": "accuracy",
    "random": "vs Random",
    "sobel": "vs Sobel",
    "blurred": "vs Random blurred",
    "kar": "KAR gain",
    "no-retrain": "no-retrain gain",
    "twin": "blurred twin",
    "masks": "masks alone",
    "seconds": "s / 1,000 maps",
    "seeds": "seeds",
    "date": "date",
    "status": "status",
}
GAINED = ("place", "gain", "random", "sobel", "blurred", "kar", "no-retrain")  # columns of protocols that have gains
TEXTS = ("estimator", "random", "sobel", "blurred", "date", "status")  # columns that are no numbers

COLUMNS = {
    "place": "Position by gain among the rows shown; 2-4 means that the data allow each of these: rows that no test "
    "over the whole board tells apart may stand either way. No place: a run of its curve is missing.",
    "estimator": "The id that the command line takes. Controls never look at the model; an estimator that does not "
    "beat them has shown nothing. (!) says that something speaks against the row; its page says what.",
    "gain": "Area between Random's accuracy curve and this one's, in accuracy points, with its interval. Above 0 is "
    "better than Random.",
    "accuracy": "Test accuracy of the networks that see only where features were removed, at each level, with its "
    "interval. They are no gain over anything and give no place.",
    "random": "What a test says beside Random, with at most 5% wrong words on a board. Not significantly different is "
    "not the same as equal.",
    "sobel": "The same beside Sobel, an edge filter that never looks at the model.",
    "blurred": "The same beside a blurred random map, which knows neither the model nor the image.",
    "kar": "The gain when the least important features are removed instead and the network is retrained.",
    "no-retrain": "The gain when the reference is not retrained (MoRF). Another question: how the reference reacts "
    "to images of a kind it never saw.",
    "twin": "How many points more the blurred twin of the row gains than the row itself, under ROAR. A blur adds no "
    "information, so that 0 or more is a reason to doubt the row, marked by (!).",
    "masks": "Test accuracy of networks that see only where the features of the row are missing, never an image, at "
    "the level where it is farthest above Random's. Where most of what the networks of ROAR know can be read from "
    "that, the row should be doubted, marked by (!).",
    "seconds": "Processor seconds for the importance maps of 1,000 images, on the machine that ran them; estimators "
    "that share a pass share its time.",
    "seeds": "Trainings per cell; fewest over the levels of the curve.",
    "date": "Day of the newest run of the curve, in UTC.",
    "status": "Verified: computed by the owner of this store, a submission in the sandbox. Trusted: a submission that "
    "was run without the sandbox. Self-reported: imported from another store and not reproduced here. No status: "
    "nothing of this curve was run.",
}

ABOUT = (
    "An estimator says how important each feature of an image is to a model. Whether it is right cannot be seen by "
    "looking. ROAR, remove and retrain (Hooker, Erhan, Kindermans, Kim, NeurIPS 2019), makes it an experiment: remove "
    "the features that the estimator calls most important from every training and test image, train a new network "
    "from scratch on what is left, and measure its accuracy. The better the estimator, the further accuracy falls.",
    "The network is retrained because a network that never saw images with holes fails on them for that reason alone. "
    "The toy experiment shows it: in 16 dimensions, 4 of which matter, a classifier that is not retrained fails early "
    "even when only useless features are removed; the retrained one keeps nearly all of its accuracy until the "
    "features that matter go.",
    "Three controls never look at the model: a random ranking, a Sobel edge filter and a blurred random map, which "
    "removes in blobs as many estimators do. The gain of an estimator is the "
    "area between Random's curve and its own, in accuracy points. Intervals come from drawing test images and "
    "trainings anew, the same draws for all. Where the data cannot tell two estimators apart the board says so, "
    "and gives places as intervals.",
)

LIMITS = (
    "A high gain says that the features carry what a new network needs, not that the explained model used them.",
    "Where features were removed can itself tell the class: see mask-only accuracy on each entry's page.",
    "Smoothing a map, which adds no information, can raise its gain: see the blurred twins.",
    "Features that say the same thing twice hide each other: removing one changes nothing.",
    "Features are numbers or pixels, removed all or not at all, and replaced by the channel mean; another basis or "
    "fill is another question.",
    "One reference, one training set and one recipe per suite: no number here says anything about others.",
)

SUBMIT = (
    "An estimator is one Python file with a function, estimate(model, images, targets, generator), that returns one "
    "number per feature, larger = more important. roarbench new NAME writes a file to start from, roarbench validate "
    "FILE checks it in seconds, and roarbench run --suite NAME --submission FILE runs it by the same code as the "
    "estimators here, with the same seeds."
)

CHANGES = (  # newest first; what a reader notices of CHANGELOG.md
    (
        "2026-11-20",
        "A blurred random map is a control: a row, a line in every bar, and a verdict beside each row. Doubts have "
        "their size. Mask-only shows accuracies.",
    ),
    (
        "2026-11-20",
        "First boards: quick, imagenette64, cifar10, fashion-mnist and planted, each at version 1; ROAR, KAR, MoRF and "
        "LeRF without retraining, and mask-only accuracy.",
    ),
    (
        "2026-11-20",
        "Places, verdicts and gains have paired 95% intervals, the paper's claims a verdict on our numbers.",
    ),
    ("2026-11-20", "A flag says why a row should be doubted: blurred twins and mask-only accuracy."),
    ("2026-11-20", "Entry pages name authors, papers and BibTeX, and a command that does each run again."),
)

EMPTY = "No results yet. Run: roarbench run --suite quick --store STORE, then open the board on the same store."


def damaged_rankings(names: Iterable[str]) -> str:
    """What a gallery says of rankings that are there and cannot be read."""
    return f"Not shown, as their rankings are damaged: {', '.join(map(plain, names))}."
