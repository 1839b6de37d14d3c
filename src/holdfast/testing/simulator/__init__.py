"""The simulator of the rulebook: one seed replays a run with crashes and clock faults.

sim_run        one run: a seed, a store, agents, and faults
sim_agents     the agents
sim_commands   the commands of agents and operators, each followed by its checks
sim_checks     compares the answers to callers with the model
sim_model      the independent model, folded from events alone
sim_state      the model's holders, waiters and living processes
sim_progress   progress: every waiting request is served as long as grants end
sim_faults     a store that fails before, inside and after its commit
sim_world      things to lock, processes, clocks
"""
