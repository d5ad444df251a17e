"""Fuzzing of every reader and of whole commands: ``make fuzz``.

Every input is a function of target, seed and number, so that a table can be repeated and a finding reproduced.
"""
