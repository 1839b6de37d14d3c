"""The simulator of the rulebook: one seed replays a run with crashes and clock faults.

sim_run        one run: a seed, a store, agents, and faults
sim_agents     the agents
sim_commands   what agents and operators do, each followed by its checks
sim_checks     what callers were told, against the model
sim_model      the independent model, folded from events alone
sim_state      who holds, who waits, who is alive, by the model
sim_progress   progress: every waiting request is served as long as grants end
sim_faults     a store that fails before, inside and after its commit
sim_world      things to lock, processes, clocks
"""
