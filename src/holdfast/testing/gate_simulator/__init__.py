"""The simulator of the gate: agents, stops, prompts, commits and kills.

sim_gate          one run, by a seed
sim_gate_events   the events of agents, each one decision on a real store
sim_gate_checks   compares the answers to agents with the model
sim_gate_model    the model: what the gate has promised
sim_gate_world    files, processes on two hosts, clients and their agents
"""
