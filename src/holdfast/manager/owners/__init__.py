"""Owners of locks: who they are, and whether they are still alive.

identity        whose lock it is when a person types a command
liveness        whether an owner is dead; only proof counts
processes       processes as /proc shows them
running_calls   which shell commands of an agent are running
variables       the environment variables of Holdfast, and which of them end above an agent
"""
