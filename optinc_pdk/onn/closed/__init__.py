"""Networks in closed form: averaging as an integer program, its floors as stages of ReLUs, and their proof."""
