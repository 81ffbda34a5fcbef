"""The estimators and controls, a file for each family, which declares them in `ESTIMATORS`.

`roarbench.estimators.catalogue` collects them from every file here, so a new file needs no entry anywhere. The list of
estimators is read at every start, and torch takes a second to import: a file here imports torch, captum and what needs
them inside its functions.
"""
