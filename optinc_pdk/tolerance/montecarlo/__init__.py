"""Many sampled chips and their words: runs, records, summaries, plots."""
