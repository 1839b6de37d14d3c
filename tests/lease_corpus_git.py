"""Git's verbs, each in a repository of its own.

The repository has the files of the world; the branch `side`, which changed a.txt and d/one.txt and
created side.txt; the branch `away`, which has commits after `side`; a tag; and `../far.git`, from
which it was cloned and in which `main` has one more commit.
"""

from __future__ import annotations

from lease_world import Rows

ROWS = Rows()
_sh = ROWS.sh

#: Creates such a repository, in a folder that contains only the files of the world.
REPOSITORY = """
git init -q -b main .
printf '*.log\\nbuild/\\n' >.gitignore
git add -A
git commit -qm start
git checkout -q -b side
sed -i s/alpha/SIDE/ a.txt; echo side >d/one.txt; echo side >side.txt
git add -A; git commit -qm side
git checkout -q -b away
echo away >away.txt; git add -A; git commit -qm away
git checkout -q main
echo second >>b.txt; git commit -qam second; git tag first
git clone -q --bare . ../far.git
git clone -q ../far.git ../near
(cd ../near; echo far >>d/two.txt; git commit -qam far; git push -q)
rm -rf ../near
git remote add origin ../far.git; git fetch -q
"""
_CHANGED = "echo changed >>a.txt; "
_BOTH = "sed -i s/alpha/MAIN/ a.txt; git commit -qam main; "

_sh("git-status", "git status --porcelain", before=_CHANGED, beside="a.txt")
_sh("git-diff", "git diff; git log --oneline -p; git show HEAD:a.txt; git blame HEAD a.txt",
    before=_CHANGED, beside="a.txt")  # fmt: skip
_sh("git-add", "git add -A", before=_CHANGED + "echo new >made", beside="b.txt")
_sh("git-commit", "git add b.txt && git commit -m work -- b.txt", before="echo changed >>b.txt",
    beside="a.txt")  # fmt: skip
_sh("git-commit-all", "git commit -am work && git commit --amend -m again", before=_CHANGED)
_sh("git-checkout", "git checkout side", "a.txt", quiet=True)
_sh("git-checkout-file", "git checkout -- a.txt", "a.txt", before=_CHANGED)
_sh("git-checkout-made", "git checkout -b made", beside="a.txt")
_sh("git-switch", "git switch side", "d/one.txt", quiet=True)
_sh("git-switch-back", "git switch main", "side.txt", before="git checkout -q side", quiet=True)
_sh("git-restore", "git restore .", "a.txt", before=_CHANGED)
_sh("git-restore-source", "git restore --source=side --staged --worktree a.txt", "a.txt")
_sh("git-reset-hard", "git reset --hard", "a.txt", before=_CHANGED)
_sh("git-reset-mixed", "git reset -q; git reset --soft HEAD~1", before=_CHANGED + "git add -A",
    beside="a.txt")  # fmt: skip
_sh("git-merge-forward", "git merge side", "a.txt", before="git checkout -q HEAD~1 2>&1")
_sh("git-merge", "git merge -m merged side", "a.txt")
_sh("git-merge-conflict", "git merge side; git diff --name-only; git merge --abort", "a.txt",
    before=_BOTH, temporary=("side.txt",), between=("side.txt",))  # fmt: skip
_sh("git-merge-squash", "git merge --squash side", "d/one.txt")
_sh("git-rebase", "git rebase main", "b.txt", before="git checkout -q away")
_sh("git-rebase-interactive", "export GIT_SEQUENCE_EDITOR='sed -i s/^pick/reword/' "
    "GIT_EDITOR='sed -i s/^/x/'; git rebase -i HEAD~2", before="git checkout -q away")  # fmt: skip
_sh("git-rebase-conflict", "git rebase main; git rebase --abort", before=_BOTH
    + "git checkout -q away")  # fmt: skip
_sh("git-cherry-pick", "git cherry-pick side", "a.txt")
_sh("git-revert", "git revert --no-edit HEAD", "b.txt")
_sh("git-stash", "git stash", "a.txt", before=_CHANGED)
_sh("git-stash-untracked", "git stash -u && git stash pop", "a.txt",
    before=_CHANGED + "echo new >made")  # fmt: skip
_sh("git-stash-pop", "git stash pop", "a.txt", before=_CHANGED + "git stash -q")
_sh("git-stash-apply", "git stash apply; git stash drop", "a.txt",
    before=_CHANGED + "git stash -q", quiet=True)  # fmt: skip
_sh("git-mv", "git mv a.txt moved.txt", "a.txt")
_sh("git-mv-folder", "git mv d moved", "d/sub/three.txt")
_sh("git-rm", "git rm -q a.txt", "a.txt")
_sh("git-rm-folder", "git rm -rq d", "d/one.txt")
_sh("git-rm-cached", "git rm -q --cached a.txt", beside="a.txt")
_sh("git-apply", "git diff main side | git apply", "a.txt")
_sh(
    "git-apply-index",
    "git diff main side | git apply --index",
    "a.txt",
)
_sh("git-am", "git format-patch -q --stdout side~1..side | git am", "a.txt")
_sh("git-clean", "git clean -fd", "made", before="echo new >made; mkdir x; echo new >x/y")
_sh("git-clean-ignored", "git clean -fX", "x.log", before="echo new >x.log", unleased=("x.log",))
_sh("git-pull", "git pull -q origin main", "d/two.txt")
_sh("git-pull-rebase", "git pull -q --rebase origin main", "d/two.txt")
_sh("git-fetch", "git fetch --all --prune --tags", before="git push -q origin side; "
    "git branch -rd origin/side", beside="a.txt")  # fmt: skip
_sh("git-push", "git push -q -u origin side", beside="a.txt")
_sh("git-tag", "git tag made && git tag -a -m note noted && git tag -d first", beside="a.txt")
_sh("git-branch", "git branch made && git branch -m made other && git branch -D side && "
    "git branch -u origin/main", beside="a.txt")  # fmt: skip
_sh("git-worktree", "git worktree add -q -b made ../linked && git -C ../linked status --porcelain "
    "&& git worktree list --porcelain && git worktree remove ../linked",
    beside="a.txt")  # fmt: skip
_sh("git-worktree-inside", "git worktree add -q build/linked side && cat build/linked/side.txt",
    beside="a.txt", unleased=("build/*",))  # fmt: skip
_sh("git-submodule", "git submodule --quiet add ../far.git sub && git commit -qm sub && "
    "git submodule status && git -C sub log -1 --format=%s")  # fmt: skip
_sh("git-submodule-update", "git submodule --quiet update --init",
    before="git submodule --quiet add ../far.git sub; git commit -qm sub; "
    "git submodule --quiet deinit -f .")  # fmt: skip
_sh("git-init", "git init -q -b main made && cd made && echo new >x && git add x && "
    "git commit -qm x && git log --format=%s")  # fmt: skip
_sh("git-clone", "git clone -q ../far.git made && git -C made log --format=%s", beside="a.txt")
_sh("git-gc", "git gc -q --prune=now && git fsck", beside="a.txt")
_sh("git-repack", "git repack -adq && git pack-refs --all && git prune", beside="a.txt")
_sh("git-bisect", "git bisect start HEAD HEAD~1 && git bisect reset")
_sh("git-bisect-run", "git bisect start away main~1 && git bisect run test ! -e side.txt && "
    "git bisect reset", "a.txt", temporary=("side.txt",), between=("side.txt",))  # fmt: skip
_sh("git-sparse", "git sparse-checkout set --cone x", "d/one.txt", quiet=True,
    before="mkdir x; echo x >x/x; git add x; git commit -qm x")  # fmt: skip
_sh("git-notes", "git notes add -m noted && git notes show", beside="a.txt")
_sh("git-config", "git config user.name corpus && git config --unset user.name && "
    "git config branch.main.description x", beside="a.txt")  # fmt: skip
_sh("git-remote", "git remote add other ../far.git && git remote rename other third && "
    "git remote remove third")  # fmt: skip
_sh("git-update-index", "git update-index --chmod=+x a.txt && git update-index --refresh; "
    "git ls-files -s a.txt", beside="a.txt")  # fmt: skip
_sh(
    "git-read-tree",
    "git read-tree -u -m HEAD side",
    "a.txt",
)
_sh("git-checkout-index", "rm b.txt && git checkout-index -f -a", "a.txt", before=_CHANGED)
_sh("git-archive", "git archive side | tar xf -", "a.txt")
_sh("git-bundle", "git bundle create -q made.bundle --all && git bundle verify -q made.bundle",
    differs=("out", "err", "made.bundle"))  # fmt: skip
_sh("git-filter", "git fast-export --all | git fast-import --quiet --force")
_sh("git-symbolic-ref", "git symbolic-ref HEAD refs/heads/side && git update-ref refs/heads/x HEAD")
_sh("git-reflog", "git reflog expire --expire=now --all && git reflog", beside="a.txt")
_sh("git-replace", "git replace HEAD HEAD~1 && git replace -d $(git rev-parse first)")  # fmt: skip
_sh("git-alias", "git -c alias.undo='checkout -- .' undo", "a.txt", before=_CHANGED)
_sh(
    "git-two-at-once",
    "git tag one & git tag two & git branch three & wait; git tag",
    beside="a.txt",
)
