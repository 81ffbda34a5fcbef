"""Turn stored results into boards, evidence, validity checks and verdicts on the paper's claims."""
