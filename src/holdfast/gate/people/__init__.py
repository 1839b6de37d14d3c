"""What the gate shows people: status, notices and blocked agents.

file_standing    the states of agents towards files at one moment
ledger_picture   the contents of the ledger at one moment, for `status` and for sandboxed callers
session_line     one session in one line, for its client's status line
blocked_agents   agents that were stopped because a retry failed
notices          notifications of people about a decision's changes
notify_command   the user's own command that is run for a notice
lookout          a small process that reports when a file that blocks an agent is free
agent_lookup     agents by the names that people type
"""
