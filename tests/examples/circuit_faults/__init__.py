"""Faults in the layouts of examples/circuits, and what finds them.

``python -m circuit_faults`` in tests/examples writes results/circuits.json.
"""
