"""The commands of `holdfast tree`.

tree_context     which repository, which worktree, which holder
tree_worktrees   init, info, create, remove
tree_listing     list, path
tree_locks       lock acquire, renew, release, steal, status
tree_running     run
tree_snapshots   snapshot, history, restore
tree_diff        diff
tree_tags        tag add, list, remove
tree_gc          gc plan, run, settings
tree_health      doctor, verify
tree_import      import
tree_progress    the progress bar of a long operation
"""
