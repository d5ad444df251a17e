"""Programming of imperfect chips: initial phases, least-squares fit, DAC codes, electronics."""
