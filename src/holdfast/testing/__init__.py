"""What shows that the rest is right: for our own tests, and for those who write a store.

    conformance   what every store must do
    simulate      the real rules under crashes, lost answers and clock steps, by a seed (`sim_*`);
                  the gate under agents, stops, prompts, commits and kills (`sim_gate*`)
    histories     what real processes were told, and whether that can have been right
    mutants       seeded bugs, which all of these must find; `gate_mutants`: those of the gate

It may import every other room, and no other room imports it.
"""
