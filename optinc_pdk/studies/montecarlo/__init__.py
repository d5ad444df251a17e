"""Monte-Carlo yield analysis of sampled chips: runs, records, summaries and plots."""
