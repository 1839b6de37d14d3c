"""Tests of the package itself, for our own test suite and for authors of other stores.

    conformance      the checks that every store must pass
    simulate         the command that runs a simulator from a seed
    simulator        the real rules under crashes, lost answers and clock steps
    gate_simulator   the gate under agents, stops, prompts, commits and kills

It may import every other room, and no other room imports it.
"""
