"""Training of networks under errors: schedules, checkpoints, search for compact networks, recipes."""
