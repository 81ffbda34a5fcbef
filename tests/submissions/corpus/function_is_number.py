NAME = "function-is-number"
DESCRIPTION = "of the corpus"
estimate = 3
