"""The programs of coreutils and similar ones, editors, archives."""

from __future__ import annotations

from lease_world import Rows

ROWS = Rows()
_sh = ROWS.sh

# coreutils

_sh("cp", "cp b.txt a.txt", "a.txt")
_sh("cp-made", "cp b.txt made")
_sh("cp-preserving", "cp -p run.sh a.txt", "a.txt")
_sh("cp-hard-link", "cp -l b.txt made", beside="a.txt")
_sh("cp-hard-link-over", "cp -lf b.txt a.txt", "a.txt")
_sh("cp-symbolic-link", "cp -s b.txt made")
_sh("cp-forced", "cp -f --remove-destination b.txt a.txt", "a.txt")
_sh("cp-backup", "cp -b b.txt a.txt", "a.txt")
_sh("cp-folder", "cp -r d made; cp -a d made-too")
_sh("cp-folder-over", "cp -r d/. e", "e/one.txt", before="mkdir e; echo older >e/one.txt")
_sh("cp-sparse", "cp --sparse=always --reflink=auto b.txt a.txt", "a.txt")
_sh("cp-parents", "mkdir made; cp --parents d/sub/three.txt made")
_sh("mv", "mv a.txt moved", "a.txt")
_sh("mv-over", "mv b.txt a.txt", "a.txt")
_sh("mv-into", "mv a.txt d/", "a.txt")
_sh("mv-not-over", "mv -n b.txt a.txt; ls")
_sh("mv-backup", "mv -b b.txt a.txt", "a.txt")
_sh("mv-folder", "mv d e", "d/one.txt")
_sh("mv-folder-deep", "mv d e", "d/sub/three.txt")
_sh("mv-made-folder", "mkdir -p x/y; echo new >x/y/z; ln -s y x/l; mv x made", beside="a.txt")
_sh("mv-folder-into-itself", "mv d d/sub")
_sh("mv-file-over-folder", "mv -T a.txt d")
_sh("mv-away", 'f=$(mktemp -d); mv a.txt "$f/" && ls "$f" && rm -r "$f"', "a.txt")
_sh("mv-in", 'f=$(mktemp); echo new >"$f"; chmod 640 "$f"; mv -f "$f" a.txt', "a.txt")
_sh("mv-other-device", "mv a.txt /dev/shm/$$.corpus; code=$?; rm /dev/shm/$$.corpus; exit $code",
    "a.txt")  # fmt: skip
_sh("rm", "rm a.txt", "a.txt")
_sh("rm-forced", "rm -f a.txt none", "a.txt")
_sh("rm-folder", "rm -r d", "d/one.txt")
_sh("rm-folder-forced", "rm -rf d", "d/sub/three.txt")
_sh("rm-link", "rm link; ls", beside="a.txt")
_sh("unlink", "unlink a.txt", "a.txt")
_sh("tee", "echo new | tee a.txt", "a.txt")
_sh("tee-append", "echo new | tee -a a.txt made", "a.txt")
_sh("install", "install -m 700 b.txt a.txt", "a.txt")
_sh("install-made", "install -D -m 640 b.txt made/deep/b.txt; install -d other/deep")
_sh("install-backup", "install -b b.txt a.txt", "a.txt")
_sh("ln", "ln b.txt made; link b.txt made-too", beside="a.txt")
_sh("ln-over", "ln -f b.txt a.txt", "a.txt")
_sh("ln-write", "ln a.txt made && echo new >made", "a.txt")
_sh("ln-symbolic", "ln -s a.txt made; ln -s none dangling")
_sh("ln-symbolic-over", "ln -sf b.txt a.txt", "a.txt")
_sh("ln-symbolic-change", "ln -sfn b.txt link; readlink link", beside="a.txt")
_sh("ln-dangling-write", "ln -s made dangling; echo new >dangling; cat made")
_sh("touch-made", "touch made", beside="a.txt")
_sh("touch-times", "touch -d 2001-02-03 a.txt; stat -c %Y a.txt", "a.txt", quiet=True)
_sh("touch-like", "touch -d 2002-02-02 b.txt && touch -r b.txt a.txt && touch -h link", "a.txt")
_sh("truncate", "truncate -s 3 a.txt", "a.txt")
_sh("truncate-longer", "truncate -s +100 a.txt", "a.txt")
_sh("dd", "dd if=b.txt of=a.txt status=none", "a.txt")
_sh("dd-in-place", "dd if=b.txt of=a.txt bs=1 seek=2 conv=notrunc status=none", "a.txt")
_sh("dd-exclusive", "dd if=b.txt of=a.txt conv=excl; dd if=b.txt of=made conv=excl,fsync",
    differs=("err",))  # fmt: skip
_sh("split", "split -l 1 a.txt part-; csplit -s a.txt 2; ls", beside="a.txt")
_sh("mkdir", "mkdir made; mkdir -p x/y/z; mkdir -m 700 private; mkdir made", beside="a.txt")
_sh("rmdir", "rmdir e/f e; rmdir d", before="mkdir -p e/f")
_sh("shred", "shred -n 0 -z a.txt", "a.txt")
_sh("shred-remove", "shred -n 1 -u a.txt", "a.txt")
_sh("chmod", "chmod 600 a.txt", "a.txt")
_sh("chmod-execute", "chmod +x a.txt", "a.txt")
_sh("chmod-tree", "chmod -R u=rwX,go= d", "d/sub/three.txt")
_sh("chmod-then-write", "chmod 400 b.txt; chmod 200 d/two.txt; echo new >>d/two.txt",
    beside="a.txt")  # fmt: skip
_sh("chown", 'chown "$(id -u):$(id -g)" b.txt; chgrp "$(id -g)" d', beside="a.txt")
_sh("mktemp", "f=$(mktemp -p .); cp a.txt $f; echo new >>$f; mv $f a.txt", "a.txt",
    temporary=("tmp.*",))  # fmt: skip
_sh("mktemp-folder", "f=$(mktemp -d -p .); echo new >$f/x; mv $f/x a.txt; rmdir $f", "a.txt",
    temporary=("tmp.*", "tmp.*/x"))  # fmt: skip
_sh("mkfifo", "mkfifo -m 600 made; mknod made-too p; stat -c %F made made-too", beside="a.txt")
_sh("sort", "sort -r -o a.txt a.txt", "a.txt")
_sh("uniq", "uniq b.txt a.txt", "a.txt")
_sh("sync", "sync a.txt; sync -d b.txt", beside="b.txt")
_sh("flock", "flock a.txt sh -c 'echo new >>a.txt'", "a.txt", needs=("flock",))
_sh("fallocate", "fallocate -l 4096 a.txt", "a.txt", needs=("fallocate",))
_sh("jq", "jq .b=2 x.json >x.tmp && mv x.tmp x.json", "x.json", needs=("jq",),
    before="echo '{\"a\": 1}' >x.json", temporary=("x.tmp",))  # fmt: skip
_sh("sponge", "sort -r a.txt | sponge a.txt", "a.txt", needs=("sponge",))
_sh("busybox-sed", "busybox sed -i s/alpha/ALPHA/ a.txt", "a.txt", needs=("busybox",))
_sh("busybox-cp", "busybox cp b.txt a.txt", "a.txt", needs=("busybox",))

# Editing in place

_sh("sed", "sed -i s/alpha/ALPHA/ a.txt", "a.txt")
_sh("sed-backup", "sed -i.bak s/alpha/ALPHA/ a.txt", "a.txt")
_sh("sed-many", "sed -i s/o/0/ a.txt b.txt d/one.txt d/two.txt", "a.txt")
_sh("sed-through-a-link", "sed -i --follow-symlinks s/alpha/ALPHA/ link", "a.txt")
_sh("sed-of-a-link", "sed -i s/alpha/ALPHA/ link; test ! -L link", beside="a.txt")
_sh("sed-write", "sed -n 'w made' a.txt; sed -n 'w a.txt' b.txt", "a.txt")
_sh("perl-in-place", "perl -i -pe s/alpha/ALPHA/ a.txt", "a.txt", needs=("perl",))
_sh("perl-backup", "perl -i.bak -pe s/alpha/ALPHA/ a.txt", "a.txt", needs=("perl",))
_sh("gawk", "gawk -i inplace '{ print toupper($0) }' a.txt", "a.txt", needs=("gawk",))
_sh("awk-redirection", 'awk \'{ print >"made"; print >>"a.txt" }\' b.txt', "a.txt")
_sh("ed", "printf '1s/alpha/ALPHA/\\nw\\nq\\n' | ed -s a.txt", "a.txt", needs=("ed",))
_sh("ex", "printf '1s/alpha/ALPHA/\\nwq\\n' | ex -s -u NONE a.txt", "a.txt", needs=("ex",))
_sh("vim", "vim -es -u NONE -c '1s/alpha/ALPHA/' -c wq a.txt", "a.txt", needs=("vim",))
for _copy in ("yes", "no", "auto"):
    _sh(f"vim-backup-{_copy}",
        f"vim -es -u NONE -c 'set backup writebackup backupcopy={_copy}' -c '1s/alpha/A/' "
        "-c wq a.txt", "a.txt", needs=("vim",), temporary=("a.txt~",))  # fmt: skip
_sh("vim-swap", "vim -es -u NONE -c 'set swapfile dir=. undofile undodir=.' -c '1d' -c wq a.txt",
    "a.txt", needs=("vim",), differs=(".*.un~",))  # fmt: skip
_sh("vim-read-only", "vim -es -u NONE -c '1d' -c w -c 'q!' a.txt", before="chmod 400 a.txt",
    needs=("vim",))  # fmt: skip
_EMACS = "emacs -Q --batch a.txt --eval '(progn {} (insert \"new\\n\") (save-buffer))'"
_sh("emacs", _EMACS.format("(setq make-backup-files nil)"), "a.txt", needs=("emacs",))
_sh("emacs-backup", _EMACS.format("(setq backup-by-copying nil)"), "a.txt", needs=("emacs",),
    temporary=("a.txt~",))  # fmt: skip
_sh("emacs-precious", _EMACS.format("(setq file-precious-flag t)"), "a.txt", needs=("emacs",),
    temporary=("*",))  # fmt: skip

# Patches

_DIFF = "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n alpha\n-beta\n+BETA\n gamma\n"
_MAKES = "--- /dev/null\n+++ b/made/new.txt\n@@ -0,0 +1 @@\n+new\n"
_REMOVES = "--- a/d/two.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-two\n"
_PATCH = f"cat >x.patch <<'END'\n{_DIFF}{_MAKES}{_REMOVES}END\n"
_sh("patch", "patch -p1 <x.patch", "a.txt", before=_PATCH, needs=("patch",))
_sh("patch-removing", "patch -p1 <x.patch", "d/two.txt", before=_PATCH, needs=("patch",))
_sh("patch-backup", "patch -b -p1 <x.patch", "a.txt", before=_PATCH, needs=("patch",))
_sh("patch-rejected", "patch -p1 <x.patch", before=_PATCH + "echo other >a.txt",
    needs=("patch",), differs=("*.rej",))  # fmt: skip
_sh("patch-back", "patch -R -p1 <x.patch", "a.txt", before=_PATCH + "patch -s -p1 <x.patch",
    needs=("patch",))  # fmt: skip

# Archives

_TAR = "tar cf x.tar a.txt d; echo older >a.txt; echo older >d/one.txt"
_sh("tar", "tar xf x.tar", "a.txt", before=_TAR)
_sh("tar-deep", "tar xf x.tar", "d/one.txt", before=_TAR)
_sh("tar-overwrite", "tar xf x.tar --overwrite", "a.txt", before=_TAR)
_sh("tar-made", "mkdir made; tar xf x.tar -C made", before=_TAR, beside="a.txt")
_sh("tar-unlink-first", "tar xUf x.tar a.txt", "a.txt", before=_TAR)
_sh("tar-create", "tar cf x.tar a.txt", "x.tar", before="echo older >x.tar")
_sh("tar-append", "tar rf x.tar b.txt", "x.tar", before=_TAR)
_ZIP = "zip -qX x.zip a.txt d/one.txt; echo older >a.txt"
_sh("unzip", "unzip -qo x.zip", "a.txt", before=_ZIP, needs=("unzip", "zip"))
_sh("zip", "zip -qX x.zip a.txt b.txt", "x.zip", before=_ZIP, needs=("zip",))
_sh("gzip", "gzip -n a.txt", "a.txt", temporary=("a.txt.gz",))
_sh("gzip-over", "gzip -nf a.txt", "a.txt.gz", before="echo older >a.txt.gz")
_sh("gunzip", "gunzip x.gz", "x.gz", before="gzip -nc a.txt >x.gz", temporary=("x",))
_sh("xz", "xz a.txt", "a.txt", needs=("xz",), temporary=("a.txt.xz",))
_sh("xz-back", "xz -d a.txt.xz", "a.txt.xz", before="xz a.txt", needs=("xz",),
    temporary=("a.txt",))  # fmt: skip
_sh("bzip2", "bzip2 a.txt", "a.txt", needs=("bzip2",), temporary=("a.txt.bz2",))
_sh("zstd", "zstd -q --rm a.txt", "a.txt", needs=("zstd",), temporary=("a.txt.zst",))
_sh("zstd-over", "zstd -qf b.txt -o a.txt", "a.txt", needs=("zstd",))
_FROM = "mkdir from; echo newer newer >from/a.txt; echo made >from/made"
_sh("rsync", "rsync -r from/ .", "a.txt", before=_FROM, needs=("rsync",))
_sh("rsync-archive", "rsync -a from/ .", "a.txt", before=_FROM, needs=("rsync",))
_sh("rsync-in-place", "rsync -r --inplace from/ .", "a.txt", before=_FROM, needs=("rsync",))
_sh("rsync-delete", "rsync -r --delete from/ d", "d/two.txt", before=_FROM, needs=("rsync",))
_sh("rsync-backup", "rsync -rb from/ .", "a.txt", before=_FROM, needs=("rsync",))
_CPIO = "echo a.txt | cpio -o --quiet >x.cpio; echo older >a.txt"
_sh("cpio-in", "cpio -iu --quiet <x.cpio", "a.txt", before=_CPIO, needs=("cpio",), quiet=True)
_sh("cpio-pass", "cd from; echo a.txt | cpio -pu --quiet ..", "a.txt", before=_FROM,
    needs=("cpio",), quiet=True)  # fmt: skip
_sh("busybox-tar", "busybox tar xf x.tar", "a.txt", before=_TAR, needs=("busybox",))
