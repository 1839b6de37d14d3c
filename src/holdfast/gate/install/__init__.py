"""`holdfast init`: hooks in other programs' settings, merged in, and removed without a trace.

    installed_clients   which clients are in use, and where their settings are
    hook_command        the command of a hook, tried before it is written
    hook_entries        one hook as a client reads it
    client_hooks        our hooks in a client's settings
    exec_form_check     whether the installed Claude Code obeys this form of a hook
    shell_prefix        the program in front of Claude Code's shell commands
    git_part            git's hooks, in words
    worktree_hooks      hooks for a new linked worktree
    ledger_takeover     the ledger that a worktree had of its own
    json_text           JSON of another program, changed in place
    client_files        files of another program: read, replaced, kept
    install_record      what was written, and what was there before
    agent_snippet       the paragraph for AGENTS.md and CLAUDE.md
    install_plan        everything, first as a plan and then for real

None of this is on the way of a hook.
"""
