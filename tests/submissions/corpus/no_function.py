NAME = "no-function"
DESCRIPTION = "of the corpus"
