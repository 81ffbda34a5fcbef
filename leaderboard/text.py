"""The texts of the pages, and text from outside made plain."""

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


_COMMON = (
    "one network for all rows, trained on images that carry other images' removed-maps and tuned on those of each row"
)
PROTOCOLS = {
    "roar": "ROAR: the most important features removed, a new network trained on what is left",
    "kar": "KAR: the least important features removed, a new network trained on what is left",
    "morf": "MoRF, not retrained: the most important features removed, the reference scored as it is",
    "lerf": "LeRF, not retrained: the least important features removed, the reference scored as it is",
    "mask-only": "Mask-only: a network that sees only where features were removed, never an image",
    "augmented": f"Augmented: on {_COMMON}, the gain of the row's own removed-maps over Random's, the most important "
    "features removed",
    "augmented-lerf": f"Augmented LeRF: on {_COMMON}, the gain of the row's own removed-maps over Random's, the least "
    "important features removed",
    "specific": f"Specific gain: on {_COMMON}, what an image's own removed-map costs more than that of another image "
    "by the same row",
    "specific-lerf": f"Specific LeRF gain: on {_COMMON}, what an image's own removed-map costs less than that of "
    "another image by the same row, the least important features removed",
    "specific-class": f"Specific gain within classes: on {_COMMON}, what an image's own removed-map costs more than "
    "that of another image of its class by the same row, so that both masks tell the class",
    "matched": f"Matched gain: on {_COMMON}, what an image's own mask costs more than a mask that follows another "
    "image's map and changes the image as much",
    "matched-lerf": f"Matched LeRF gain: on {_COMMON}, what an image's own mask costs less than a mask that follows "
    "another image's map and changes the image as much, the least important features removed",
    "roar-exchanged": "ROAR exchanged: a new network trained on images that carry other images' removed-maps, tested "
    "on each image's own",
    "kar-exchanged": "KAR exchanged: a new network trained on images that carry other images' removed-maps, tested on "
    "each image's own, the least important features removed",
    "roar-recursive": "Recursive ROAR: a new network trained on what is left at each level, and explained anew, which "
    "says what is removed next",
    "diffroar": "DiffROAR: KAR minus ROAR, the answers of networks trained on what is left without the least important "
    "features minus those of networks without the most important ones; nothing is trained for it",
}


def protocol_name(name: str) -> str:
    """Return the name of a protocol as sentences have it: the first word of its description."""
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
    "random",
    "sobel",
    "blurred",
    "kar",
    "no-retrain",
    "other-image",
)  # columns of protocols that have gains
TEXTS = ("estimator", "random", "sobel", "blurred", "date", "status")  # columns that are no numbers

COLUMNS = {
    "place": "Position by gain among the rows shown. A place interval such as 2-4 has all places that the data allow: "
    "two rows that are not significantly different may stand in either order. No place: a run of the curve is missing.",
    "estimator": "The id that the command line takes. Controls never look at the model; an estimator that does not "
    "beat them has shown nothing. (!) means that there is a reason to doubt the row, which its "
    "page gives, and (!!) a strong one.",
    "gain": "Area between Random's accuracy curve and this one's, in accuracy points, with its interval. Under "
    "specific gain the area is that of what an image's own removed-map costs more than another image's, at each level. "
    "Under DiffROAR it is that of KAR's accuracy minus ROAR's. Above 0 is better than Random in each case, whose "
    "specific gain and DiffROAR are 0.",
    "accuracy": "Test accuracy of the networks that see only where features were removed, at each level, with its "
    "interval. These are not gains and give no places.",
    "random": "A test against Random, at a false discovery rate of 5% over the board. Not significantly different does "
    "not mean equal.",
    "sobel": "The same against Sobel, an edge filter that never looks at the model.",
    "blurred": "The same against a blurred random map, which knows neither the model nor the image.",
    "kar": "The gain when the least important features are removed instead and the network is retrained.",
    "no-retrain": "The gain when the reference is not retrained (MoRF). This answers another question: how the "
    "reference reacts to images of a kind that it never saw.",
    "other-image": "The gain minus that of the same maps handed to other images, with a verdict: what the estimator "
    "knows about this image. Smoothness, shapes and positions are the same in both.",
    "twin": "The share of the row's gain under ROAR that its blurred twin has, too. A blur adds no information. Bold: "
    "some, with the whole interval above 50%, or strong, above 90%. Of a row that is not better than Random there is "
    "no gain to share.",
    "masks": "The share of the accuracy above chance under ROAR that networks have which see only where features were "
    "removed, never an image, at the highest level that has both. Bold as in the column before.",
    "above": "Accuracy under ROAR minus that of masks alone at that level, in accuracy points, with its interval. "
    "Where it is not above 0 the row's images tell no more than its mask: it is at the floor.",
    "seconds": "Processor seconds for the importance maps of 1,000 images, on the machine that ran them; estimators "
    "that share a pass share its time.",
    "seeds": "Trainings per cell: the smallest number over the levels of the curve.",
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
    "ROAR pays for smooth maps, and its networks can read the class from the shape of what was removed. Specific gain "
    "answers both: one network has met removed-maps of other images alone, and is asked about every test image twice, "
    "with the image's own removed-map and with one that the same estimator made for another image. No mask was ever "
    "tied to a class, and both maps are equally smooth. What the own map costs more is what the estimator knows about "
    "this image; a map that ignores the image has 0. The board of quick begins with it, and ROAR stands beside it.",
    "Three controls never look at the model: a random ranking, a Sobel edge filter and a blurred random map, which "
    "removes in blobs as many estimators do. The gain of an estimator under ROAR is the area between Random's curve "
    "and its own, in accuracy points. Intervals come from resampling test images, explained networks and trainings, "
    "with the same draws for all rows. Where two estimators are not significantly different the board "
    "says so, and their place intervals overlap.",
)

LIMITS = (
    "A high gain says that the features carry what a new network needs, not that the explained model used them.",
    "Where features were removed can itself tell the class: see mask-only accuracy on each entry's page.",
    "Smoothing a map, which adds no information, can raise its gain under ROAR: see the blurred twins.",
    "Specific gain sees nothing of features that stand at the same place in every image, and is below 0 for a map that "
    "draws the image's outline.",
    "Redundant features hide each other: removing one of them changes nothing.",
    "Features are numbers or pixels, removed all or not at all, and replaced by the channel mean; another basis or "
    "fill is another question.",
    "One training set and one recipe per suite, and in first versions one explained network: no number here says "
    "anything about others.",
)

SUBMIT = (
    "An estimator is one Python file with a function, estimate(model, images, targets, generator), that returns one "
    "number per feature, larger = more important. roarbench new NAME writes a file to start from, roarbench validate "
    "FILE checks it in seconds, and roarbench run --suite NAME --submission FILE runs it by the same code as the "
    "estimators here, with the same seeds; with --protocol specific by one protocol alone."
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
        "Accuracy above masks alone, and the gain over an estimator's own maps of other images, have columns. "
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
