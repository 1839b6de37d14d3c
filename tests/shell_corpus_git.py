"""Command lines with git and with patches, with what each of them writes."""

from __future__ import annotations

from shell_world import reads, runs, tree, unsure

# patches

runs("patch -p1 < p.patch", "a.txt", "new.txt", "b.txt")
runs("patch -p1 -i p.patch", "a.txt", "new.txt", "b.txt")
runs("cat p.patch | patch -p1", "a.txt", "new.txt", "b.txt")
runs("patch -p1 --dry-run < p.patch")
runs("git apply p.patch", "a.txt", "new.txt", "b.txt")
runs("git apply < p.patch", "a.txt", "new.txt", "b.txt")
runs("git apply --check p.patch")
runs("git apply --stat p.patch")
runs("patch a.txt <<'EOF'\n--- x\n+++ y\n@@ -1,3 +1,3 @@\n-one\n+1\n two\n three\nEOF", "a.txt")
runs("git apply <<'EOF'\n--- a/src/app.py\n+++ b/src/app.py\n@@ -1 +1 @@\n-app\n+APP\nEOF",
     "src/app.py")  # fmt: skip
runs("cat > q.patch <<'EOF'\n--- a/c.py\n+++ b/c.py\n@@ -1 +1 @@\n-c = 1\n+c = 2\nEOF\n"
     "git apply q.patch && rm q.patch", "q.patch", "c.py")  # fmt: skip
runs("patch -p1 <<'E'\n--- a/q.sql\n+++ b/q.sql\n@@ -1 +1 @@\n--- a/z\n+++ b/z\nE", "q.sql")
unsure("patch -p1 < nope.patch")
unsure("curl -s https://x/y.patch | git apply")
reads("apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: src/app.py\n@@\n-app\n"
      "+*** Add File: no\n*** Add File: src/new.py\n+x > y\n"
      "*** Delete File: b.txt\n*** Update File: c.py\n"
      "*** Move to: e.py\n@@\n-c\n+e\n*** End Patch\nEOF",
      "src/app.py", "src/new.py", "b.txt", "c.py", "e.py")  # fmt: skip
reads("cd src && apply_patch <<'P'\n*** Begin Patch\n*** Delete File: app.py\n*** End Patch\nP",
      "src/app.py")  # fmt: skip
reads("apply_patch '*** Begin Patch\n*** Add File: my file.md\n+x\n*** End Patch'", "my file.md")
reads("cat <<'E' | apply_patch\n*** Begin Patch\n*** Add File: n.md\n+x\n*** End Patch\nE", "n.md")

# git with paths

reads("git checkout -- a.txt", "a.txt")
reads("git checkout HEAD -- a.txt src/app.py", "a.txt", "src/app.py")
reads("git checkout main -- a.txt", "a.txt")
reads("git checkout HEAD~2 a.txt", "a.txt")
reads("git checkout a.txt", "a.txt")
reads("git checkout a.txt b.txt", "a.txt", "b.txt")
reads("git checkout --theirs a.txt && git add a.txt", "a.txt")
reads("git checkout -- deleted.txt", "deleted.txt")
reads("git restore a.txt", "a.txt")
reads("git restore --source=HEAD~1 -- a.txt", "a.txt")
reads("git restore -s main --staged --worktree a.txt", "a.txt")
reads("git restore --staged a.txt")
reads("git rm a.txt", "a.txt")
reads("git rm -r --cached src")
reads("git rm -rf src/deep", "src/deep/")
reads("git mv a.txt z.txt", "a.txt", "z.txt")
reads("git mv a.txt src/", "a.txt", "src/a.txt")
reads("git -C src checkout -- app.py", "src/app.py")
reads("git -c core.x=y --no-pager -C src restore app.py", "src/app.py")
reads("git stash push -m wip -- a.txt", "a.txt")
reads("git diff --output=d.patch", "d.patch")
reads("git archive -o x.tar HEAD", "x.tar")
reads("git reset HEAD a.txt")
reads("git reset --soft HEAD~1")
reads("git checkout -b topic")
reads("git switch -c topic")
reads("git stash list && git stash show -p")
reads("git clean -nd")
reads("git worktree list")
unsure("git commit -am 'x > y'")
unsure("git push origin main")
unsure("git worktree add ../other main")
unsure("git submodule update --init")
unsure("git frobnicate")

# git on the whole tree

tree("git reset --hard", "reset", "--hard")
tree("git reset --hard origin/main", "reset", "--hard", "origin/main")
tree("git checkout main", "checkout", "main")
tree("git checkout -f feature", "checkout", "-f", "feature")
tree("git checkout -", "checkout", "-")
tree("git checkout HEAD~1", "checkout", "HEAD~1")
tree("git checkout .", "checkout", ".")
tree("git checkout -- .", "checkout", "--", ".")
tree("git checkout -- src", "checkout", "--", "src")
tree("git checkout -- '*.py'", "checkout", "--", "*.py")
tree("git checkout -b topic origin/main", "checkout", "-b", "topic", "origin/main")
tree("git switch main", "switch", "main")
tree("git switch -", "switch", "-")
tree("git restore .", "restore", ".")
tree("git restore :/", "restore", ":/")
tree("git stash", "stash")
tree("git stash push -u -m 'wip'", "stash", "push", "-u", "-m", "wip")
tree("git stash -u", "stash", "-u")
tree("git stash pop", "stash", "pop")
tree("git stash apply stash@{1}", "stash", "apply", "stash@{1}")
tree("git clean -fd", "clean", "-fd")
tree("git rebase -i main", "rebase", "-i", "main")
tree("git rebase --abort", "rebase", "--abort")
tree("git -c rebase.autoStash=true rebase main", "rebase", "main", "--autostash")
tree("git -c merge.autostash=true pull", "pull", "--autostash")
tree("git -c rebase.autoStash=false rebase main", "rebase", "main")
tree("git merge --no-ff feature", "merge", "--no-ff", "feature")
tree("git pull --rebase origin main", "pull", "--rebase", "origin", "main")
tree("git cherry-pick abc123", "cherry-pick", "abc123")
tree("git revert --no-edit HEAD", "revert", "--no-edit", "HEAD")
tree("git am < p.patch", "am")
tree("git bisect start HEAD v1", "bisect", "start", "HEAD", "v1")
tree("git --git-dir=.git --work-tree=. reset --hard", "reset", "--hard")
tree("if true; then git -c x=y reset --hard; fi", "reset", "--hard")
reads("git fetch && git reset --hard X && rm a.txt", "a.txt", trees=(("reset", "--hard", "X"),))
reads("git stash && git pull && git stash pop", trees=(("stash",), ("pull",), ("stash", "pop")))
reads('git checkout "$BRANCH"', trees=(("checkout", '"$BRANCH"'),), unsure=True)
reads("git bisect run make test", trees=(("bisect", "run", "make", "test"),), unsure=True)
