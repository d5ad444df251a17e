"""Design-rule check (DRC) of a written layout, with its marker database and its script for KLayout."""
