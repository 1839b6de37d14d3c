"""What the gate shows people: status, notices, and who is blocked.

file_standing    who has which file, who waits and who is blocked, at one moment
ledger_picture   what the ledger says at one moment, for `status` and for sandboxed callers
session_line     one session in one line, for its client's status line
blocked_agents   agents that were stopped because a retry failed
notices          what people are told about a decision's changes
notify_command   the user's own command that is run for a notice
lookout          a small process that reports when a file that blocks an agent is free
agent_lookup     agents by the names that people type
"""
