NAME = "five-arguments"
DESCRIPTION = "of the corpus"


def estimate(model, images, targets, generator, more):
    return images
