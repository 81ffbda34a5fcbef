NAME = "good-many-arguments"
DESCRIPTION = "of the corpus"


def estimate(*arguments, sign=1):
    model, images, targets, generator = arguments
    return sign * images
