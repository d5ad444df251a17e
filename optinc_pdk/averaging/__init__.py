"""The averaging task of a chip: words, PAM4 symbols, ideal averages, and comparison of outputs with the ideal."""

from optinc_pdk.averaging.score import Score, decide, decide_steps, error_counts, score
from optinc_pdk.averaging.task import Averaging
from optinc_pdk.averaging.words import assign_random, assign_worst, cascade_words
from optinc_pdk.validation import validate_api

__all__ = [
    "Averaging",
    "Score",
    "assign_random",
    "assign_worst",
    "cascade_words",
    "decide",
    "decide_steps",
    "error_counts",
    "score",
]

validate_api(__name__, nan=("score",))  # of a word that was not read
