"""Files: how a path becomes a key, which checkout it belongs to, and how it was before.

paths             the one place where text becomes a key
realpath          where a path leads on disk, even if its end does not exist yet
checkouts         linked git worktrees, and the repository that a checkout belongs to
control_files     files that control Holdfast, a client or git: one table for all rooms
keepsakes         copies of the files that a grant may write, made before its work begins
replace_file      content put in a file's place: a reader finds the old or the new, whole
ended_edits       such copies of work whose locks have ended by time, where hosts share a ledger
file_restore      one file, copied, compared and restored
settings_text     the text of `holdfast.toml`
plain_toml        its tables, read without the standard library's parser where possible
unfinished_edits  owners that died in the middle of an edit: their locks outlive them until
                  the files are restored
"""
