"""Hold the texts of the pages, and make text from outside plain."""

from collections.abc import Iterable

from roarbench.text import one_line, printable

LONGEST = 300  # characters of a text from outside that a page shows


def plain(text: str, longest: int = LONGEST) -> str:
    """Return text from outside as one printable line, cut where it is too long."""
    return one_line(text, longest)


def capital(words: str) -> str:
    """Return words with a capital at their beginning; the others stay as they are."""
    return words[:1].upper() + words[1:]


def plain_lines(text: str) -> str:
    """Return a file from outside as lines of plain text: what could move or hide letters becomes a space."""
    return "\n".join(printable(line) for line in text.expandtabs(4).splitlines())


HEADINGS = {  # of the board's columns
    "place": "place",
    "estimator": "estimator",
    "gain": "gain",
    "beats": "beats controls",
    "accuracy": "accuracy",
    "random": "vs Random",
    "sobel": "vs Sobel",
    "blurred": "vs Random blurred",
    "kar": "KAR gain",
    "no-retrain": "no-retrain gain",
    "other-image": "over other image",
    "twin": "blurred twin",
    "masks": "masks alone",
    "above": "above masks",
    "seconds": "s / 1,000 maps",
    "seeds": "seeds",
    "date": "date",
    "status": "status",
}
GAINED = (
    "place",
    "gain",
    "beats",
    "random",
    "sobel",
    "blurred",
    "kar",
    "no-retrain",
    "other-image",
)  # columns of protocols that have gains
TEXTS = ("estimator", "beats", "random", "sobel", "blurred", "date", "status")  # columns that are no numbers

COLUMNS = {
    "place": "Position by gain among all rows of the board, shown or not. A place interval such as 2-4 holds all "
    "places that the data allow: rows that are not significantly different may stand in either order. No place: a run "
    "is missing.",
    "estimator": "The id that the command line takes. Controls never look at the network; an estimator that does not "
    "beat them has shown nothing. (!) marks a reason to doubt the row, given on its page; (!!) a strong one.",
    "gain": "Area between Random's accuracy curve and this one's, in accuracy points, with its interval. Specific "
    "and matched gain: the area of how much more an image's own mask costs than another one. DiffROAR: the area of "
    "KAR's accuracy minus ROAR's. Above 0 is better than Random in each case.",
    "beats": "Yes: better than every control of the suite that asks no network, with a chance of 5% at most that any "
    "row is called so wrongly; else the control that is hardest to beat, ≈ not significantly different from it, < "
    "below it.",
    "accuracy": "Test accuracy of networks that see only where features were removed, at each level, with its "
    "interval. These are not gains and give no places.",
    "random": "A test against Random, at a false discovery rate of 5% over the board. Not significantly different does "
    "not mean equal.",
    "sobel": "The same against Sobel, an edge filter that never looks at the network.",
    "blurred": "The same against a blurred random map, which knows neither the network nor the image.",
    "kar": "The gain when the least important features are removed instead and the network is retrained.",
    "no-retrain": "The gain when the reference is not retrained (MoRF). It answers another question: how the reference "
    "reacts to images of a kind it never saw.",
    "other-image": "The gain minus that of the same maps given to other images, with a verdict: what the estimator "
    "knows about this image. Smoothness, shapes and positions are the same in both.",
    "twin": "The share of the row's ROAR gain that its blurred twin also achieves. A blur adds no information. Bold: "
    "some (whole interval above 50%) or strong (above 90%). A row that is not better than Random has no gain to share.",
    "masks": "The share of accuracy above chance under ROAR that networks reach from the masks alone, without an "
    "image, at the highest level that has both. Bold as in the column before.",
    "above": "Accuracy under ROAR minus that of masks alone at that level, in accuracy points, with its interval. "
    "Where it is not above 0, the row is at the floor: its images tell no more than its masks.",
    "seconds": "Processor seconds for the importance maps of 1,000 images, on the machine that ran them; estimators "
    "that share a pass share its time.",
    "seeds": "Trainings per cell: the smallest number over the levels of the curve.",
    "date": "Day of the newest run of the curve, in UTC.",
    "status": "Verified: computed by the owner of this store, a submission in the sandbox. Trusted: a submission "
    "run without the sandbox. Self-reported: imported from another store and not reproduced here. No status: "
    "nothing of this curve has been run.",
}

ABOUT = (
    "An estimator says how important each feature of an image is to a network. Looking at its map does not tell "
    "whether it is right. ROAR, remove and retrain (Hooker, Erhan, Kindermans, Kim, NeurIPS 2019), tests it: remove "
    "the features that the estimator calls most important from every training and test image, train a new network "
    "from scratch on what is left, and measure its accuracy. The better the estimator, the further accuracy falls.",
    "Why retrain? A network that never saw images with holes fails on them for that reason alone. The toy experiment "
    "shows it: of 16 dimensions 4 matter. Without retraining, a classifier fails even when only useless features are "
    "removed; retrained, it keeps nearly all of its accuracy until the features that matter go.",
    "ROAR rewards smooth maps, and its networks can read the class from the shape of the mask. Specific gain avoids "
    "both. One network, trained on images with other images' masks, answers every test image twice: with the image's "
    "own mask, and with one that the same estimator made for another image. No mask was ever tied to a class, and both "
    "are equally smooth. The difference is what the estimator knows about this image; a map that ignores the image "
    "scores 0. The board of quick leads with it and shows ROAR beside it. Matched gain compares with masks that change "
    "the image as much, so that following contrast alone scores 0, too.",
    "Controls never look at the network: a random ranking, a Sobel edge filter, a blurred random map, which removes "
    "blobs as many estimators do, and in some suites maps of contrast and saturation. The gain of an estimator under "
    "ROAR is the area between Random's curve and its own, in accuracy points. Intervals come from resampling test "
    "images, explained networks and trainings, with the same draws for all rows. Where two "
    "estimators are not significantly different, the board says so, and their place intervals overlap.",
)

LIMITS = (
    "A high gain says that the features carry what a new network needs, not that the explained network used them.",
    "Where features were removed can itself reveal the class: see mask-only accuracy on each entry's page.",
    "Smoothing a map adds no information but can raise its gain under ROAR: see the blurred twins.",
    "Specific gain does not see features at the same place in every image. It is below 0 where the mask itself reveals "
    "the image's content.",
    "Redundant features hide each other: removing one of them changes nothing.",
    "Features are numbers or pixels, removed entirely or not at all, and set to the channel mean; another basis or "
    "fill is another question.",
    "One training set and one recipe per suite, and in first versions one explained network: no number here says "
    "anything about others.",
)

SUBMIT = (
    "An estimator is one Python file with a function, estimate(model, images, targets, generator), that returns one "
    "number per feature, larger = more important. roarbench new NAME writes a file to start from, roarbench validate "
    "FILE checks it in seconds, and roarbench run --suite NAME --submission FILE runs it with the same code and seeds "
    "as the built-in estimators; add --protocol specific to run one protocol alone."
)

CHANGES = (  # newest first; what a reader notices of CHANGELOG.md
    (
        "2026-11-21",
        "quick is at version 2: three explained networks, networks retrained to the end, and a board that begins with "
        "specific gain, ROAR beside it. The newest version of a suite comes first; boards of older ones stay. Curves "
        "begin with gains per level, and a comparison is of gains. A submission is a row only where it was run.",
    ),
    (
        "2026-11-21",
        "Doubts are marks: shares of a row's gain, and of its accuracy above chance, with intervals and grades. "
        "New columns: accuracy above masks alone, and gain over an estimator's own maps of other images. "
        "The paper's Sobel is sobel-released.",
    ),
    (
        "2026-11-20",
        "A blurred random map is a control: a row, a line in every bar, and a verdict on each row. Doubts have "
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
    """Return the sentence on rankings that are there and cannot be read."""
    return f"Not shown, as their rankings are damaged: {', '.join(map(plain, names))}."
