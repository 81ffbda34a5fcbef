"""Share what several rooms of tests need."""
