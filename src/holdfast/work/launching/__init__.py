"""Launchers: the process of each slot, and everything that an agent starts.

slots              a slot's launcher as the scheduler sees it
launcher           the process: starts agents in a sandbox, and outlives none of them
open_agent         an agent without a sandbox, whose launcher answers for a ledger on a server
brokered_attempt   an attempt at a task, whose launcher is the broker of its agents
agent_output       an agent's output, on its way to a file
descendants        every process below a launcher: killed, and waited for
run_folders        what is kept on disk for an item
"""
