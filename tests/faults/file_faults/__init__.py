"""Faults at every file operation of the commands that write files: kills, signals, full disks, missing permissions.

``python -m file_faults`` (``make faults``) runs everything and prints a table; ``--sample`` runs a part in seconds.
"""
