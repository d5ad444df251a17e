"""Training under errors, from any start; the search for compact networks; the recipes of those that ship."""
