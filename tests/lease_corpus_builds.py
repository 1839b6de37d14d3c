"""Compilers, package managers and formatters."""

from __future__ import annotations

import sys

from lease_world import Rows

ROWS = Rows()
_sh = ROWS.sh

_PROJECT = r"""
mkdir src
printf '#include "x.h"\n#include <stdio.h>\n' >src/main.c
printf 'int main(void) { printf("%%d\\n", two()); }\n' >>src/main.c
printf 'int two(void);\n' >src/x.h
printf '#include "x.h"\nint two(void) { return 2; }\n' >src/x.c
cat >Makefile <<'END'
.RECIPEPREFIX = >
objects = out/main.o out/x.o
prog: $(objects)
> gcc -o $@ $(objects)
out/%.o: src/%.c
> mkdir -p out
> gcc -g -c -MMD -o $@ $<
lib: out/x.o
> rm -f libx.a
> ar rcsD libx.a out/x.o
clean:
> rm -rf out prog
-include $(objects:.o=.d)
END
"""
_TOOLS = ("gcc", "make")
_sh("gcc", "gcc -c src/x.c -o x.o && gcc src/main.c x.o -o prog && ./prog", "x.o",
    before=_PROJECT + "echo older >x.o", needs=_TOOLS)  # fmt: skip
_sh("gcc-program-over", "gcc src/main.c src/x.c -o prog", "prog", needs=_TOOLS,
    before=_PROJECT + "echo old >prog")  # fmt: skip
_sh("make", "make -s && ./prog && make -s lib && make -s clean", before=_PROJECT, needs=_TOOLS,
    beside="src/x.c")  # fmt: skip
_sh("make-parallel", "make -s -j4 && ./prog && make -s -j4", before=_PROJECT, needs=_TOOLS,
    beside="src/x.c")  # fmt: skip
_sh("make-over", "touch src/x.c && make -s", "out/x.o", before=_PROJECT + "make -s", needs=_TOOLS)
_sh("strip", "strip x.o", "x.o", before=_PROJECT + "gcc -g -c src/x.c -o x.o",
    needs=("gcc", "strip"))  # fmt: skip
_sh("ar", "ar rcsD x.a a.txt", "x.a", before="ar rcsD x.a b.txt", needs=("ar",))

_PACKAGE = r"""
mkdir -p pkg/bin
echo '{"name": "pkg", "version": "1.0.0", "bin": {"pkg-tool": "bin/tool.js"}}' >pkg/package.json
printf '#!/usr/bin/env node\nconsole.log("tool");\n' >pkg/bin/tool.js
echo 'module.exports = 1;' >pkg/index.js
echo '{"name": "top", "version": "1.0.0", "private": true}' >package.json
"""
_NPM = "npm install --offline --no-audit --no-fund --no-update-notifier --loglevel=error"
_sh("npm-install", f"{_NPM} ./pkg && node -e \"console.log(require('pkg'))\"", "package.json",
    before=_PACKAGE, needs=("node", "npm"), differs=("out",))  # fmt: skip
_sh("npm-pack", "cd pkg && npm pack --loglevel=error >/dev/null && cd .. && "
    f"{_NPM} ./pkg/pkg-1.0.0.tgz", "package.json", before=_PACKAGE, needs=("node", "npm"),
    differs=("out",))  # fmt: skip
_sh("npm-run", "npm run --silent build", "a.txt", needs=("node", "npm"),
    before="echo '{\"scripts\": {\"build\": \"cp b.txt a.txt\"}}' >package.json")  # fmt: skip

_WHEEL = f"""
{sys.executable} - <<'END'
import zipfile
with zipfile.ZipFile('corpus-1.0-py3-none-any.whl', 'w') as wheel:
    for name, text in {{
        'corpus/__init__.py': 'one = 1\\n',
        'corpus-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\\nName: corpus\\nVersion: 1.0\\n',
        'corpus-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n',
        'corpus-1.0.dist-info/entry_points.txt': '[console_scripts]\\ncorpus = corpus:main\\n',
        'corpus-1.0.dist-info/RECORD': 'corpus/__init__.py,,\\n',
    }}.items():
        wheel.writestr(zipfile.ZipInfo(name), text)
END
"""
_sh("venv", f"{sys.executable} -m venv --without-pip env && env/bin/python -c 'print(1)'",
    beside="a.txt")  # fmt: skip
_PIP = (
    "-m pip --disable-pip-version-check install -q --no-index --no-deps --no-compile --no-cache-dir"
)
_sh("pip-install", f"{sys.executable} {_PIP} --root-user-action=ignore --target lib ./corpus-*.whl"
    " && ls lib", before=_WHEEL)  # fmt: skip
_sh("compileall", f"{sys.executable} -m compileall -q --invalidation-mode unchecked-hash src",
    before="mkdir src; echo 'x = 1' >src/x.py")  # fmt: skip
_sh("ruff-format", f"{sys.executable} -m ruff format -q --no-cache x.py", "x.py",
    before="echo 'x  =  [1,2]' >x.py")  # fmt: skip
_sh("ruff-fix", f"{sys.executable} -m ruff check -q --no-cache --fix x.py", "x.py",
    before="echo 'import os' >x.py")  # fmt: skip
_sh("ruff-cache", f"{sys.executable} -m ruff check -q x.py", before="echo 'x = 1' >x.py",
    beside="x.py", differs=(".ruff_cache/*",))  # fmt: skip
_sh("prettier", "prettier --write --log-level warn x.js x.json", "x.js", needs=("node",),
    before="echo 'var a  = {b:1,\nc:2}' >x.js; echo '{\"a\":\n1}' >x.json")  # fmt: skip
_sh("mypy-cache", f"{sys.executable} -m mypy --no-error-summary x.py", before="echo 'x = 1' >x.py",
    differs=(".mypy_cache/*",))  # fmt: skip
_sh("pytest", f"{sys.executable} -m pytest -q -p no:randomly -p no:xdist test_x.py >/dev/null",
    before="echo 'def test_x(tmp_path): (tmp_path / \"x\").write_text(\"x\")' >test_x.py",
    beside="test_x.py", differs=(".pytest_cache/*", "__pycache__/*"))  # fmt: skip
_sh("ignored", "echo new >build/x; mkdir build/y; echo new >build/y/z; rm build/old", "",
    before="echo build >.gitignore; mkdir build; echo old >build/old", beside="a.txt",
    unleased=("build/*",))  # fmt: skip
_sh("ignored-but-held", "echo new >build/x", "build/x", unleased=("build/*",),
    before="echo build >.gitignore; mkdir build; echo old >build/x")  # fmt: skip
