NAME = "three-arguments"
DESCRIPTION = "of the corpus"


def estimate(model, images, targets):
    return images
