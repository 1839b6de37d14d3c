"""The door: a client's hook process, from standard input to the answer.

hook_process      reads standard input, prints the reply, exits
client_events     one event of a client: bytes in, an answer out, before the client's timeout
ledger_answer     what one repository's ledger answers to that event
delegated_calls   calls under a grant or below a broker: checked, never leased
bundle            builds one file of all modules that a hook usually needs
unbundle          how a hook loads that file
"""
