"""Locks from the command line: taken, released, shown, and held for a command.

lock_commands     lock, unlock, renew, steal
check_commands    check, whoami
status            status
log_commands      log, reap, trim
run_command       run
run_lease         run --lease
write_command     write
grant_selection   which grants a caller means, by id or by path
sandbox_option    the option --sandbox, which several commands have
inside_sandbox    the same questions from inside a sandbox, where the ledger is closed
"""
