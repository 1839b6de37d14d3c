"""The gate from the command line.

init            init
doctor          doctor
off_and_on      off, on
gate_commands   hook, blockers, resume, undo
person          whether a person is asking
agent_words     the gate's events, as sentences
agent_lines     snippet, statusline
"""
