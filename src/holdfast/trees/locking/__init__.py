"""The lock of an exclusive worktree, and operations that a crash may interrupt.

worktree_locks     acquire, renew, release, steal, and the check before a commit
lock_records       the record of a lock, with its seven fields
worktree_holders   `host:user:pid:start_time` of whoever holds it
operation_guard    one process at a time does what must not interleave
operation_rights   who performs an operation, and by which right
intents            operations in progress
intent_recovery    finishes or undoes what a dead process left in progress
"""
