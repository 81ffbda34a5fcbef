"""Turn stored results into boards, evidence, validity checks and verdicts on the claims of Hooker et al. 2019."""
