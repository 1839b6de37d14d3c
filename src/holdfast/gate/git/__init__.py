"""git: its hooks, what a commit may contain, and what a commit releases.

commit_check       refuses a commit of files that another live agent holds; releases the rest
commit_refusal     why a commit was refused, in words
commit_index       an index that shows a hook manager only what is being committed
committer          which agent or person makes a commit
git_files          what git knows of files: staged, committed, dirty
git_hooks          our hooks of git, installed and removed
hook_folder        where git looks for its hooks
hook_scripts       the text of our hooks
hook_watch         whether git's hooks, or the last commit, changed since an agent's last event
hook_repair        what is done when they did
hook_managers      hook managers that stash unstaged work while their hooks run
git_control_files  control files of a tree, including the hooks that git is asked for
"""
