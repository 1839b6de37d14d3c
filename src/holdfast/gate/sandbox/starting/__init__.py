"""Starting a restricted command, and its signals.

restricted_start   fork, restrict, execute
fork_server        a small process that starts the commands of a runner that has many
fork_client        the runner's side of it
signal_relay       signals between a runner and its command
"""
