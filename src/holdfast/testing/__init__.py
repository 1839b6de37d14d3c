"""What shows that the rest is right: for our own tests, and for authors of another store.

    conformance      what every store must do
    simulate         the command that runs a simulator, by a seed
    simulator        the real rules under crashes, lost answers and clock steps
    gate_simulator   the gate under agents, stops, prompts, commits and kills

It may import every other room, and no other room imports it.
"""
