"""Owners of locks: who they are, and whether they are still alive.

identity        the holder of a lock that is taken at the command line
liveness        whether an owner is dead; only proof counts
processes       processes as /proc shows them
running_calls   which shell commands of an agent are running
variables       the environment variables of Holdfast, and which of them agents do not get
"""
