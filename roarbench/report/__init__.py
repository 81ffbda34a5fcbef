"""Write what was analysed as tables, figures and lists, for people and for programs."""
