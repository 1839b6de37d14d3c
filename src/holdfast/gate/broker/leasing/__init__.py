"""The leases that a broker takes, and when it releases them.

command_leases   what the command holds, what others hold, and what is stale
leased_files     a leased file, a call that has to wait for one, and the states of files
others_changes   which files other holders have released since the broker started
refusals         the last refusals of a command
agent_leases     the leases of an agent's shell command, under the rules of the gate
task_leases      the leases of a task: kept until it ends, and undone if it fails
git_lookahead    leases for a git that is about to change many files, taken in one decision
committed_files  which leased files a commit has made clean, for `--until-commit`
"""
