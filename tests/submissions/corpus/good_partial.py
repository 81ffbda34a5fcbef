from functools import partial

NAME = "good-partial"
DESCRIPTION = "of the corpus"


def scaled(factor, model, images, targets, generator):
    return images * factor


estimate = partial(scaled, 2.0)
