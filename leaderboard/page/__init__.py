"""The pages of the board, one module each: from records to the fields of a template."""
