"""The lock of an exclusive worktree, and operations that a crash may interrupt.

worktree_locks     acquire, renew, release, steal, and the check before a commit
lock_records       the record of a lock, with its seven fields
worktree_holders   `host:user:pid:start_time` of the holder
operation_guard    keeps apart changes that must not interleave
operation_rights   the right of a holder to perform an operation
intents            operations in progress
intent_recovery    finishes or undoes what a dead process left in progress
"""
