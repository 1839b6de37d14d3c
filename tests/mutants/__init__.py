"""Mutants: for every promise in docs/CONFORMANCE.md a change to the source that breaks it.

A test of a promise that passes while the promise is broken proves nothing. So each mutant names the
promise that it breaks and the tests that must fail: `./check long` runs all mutants, `./check
fights` a sample. A mutant is one piece of text in one file of the package, and its replacement:

    Mutant(
        "000-11",
        "a lock is stolen before it has expired",
        "trees/locking/worktree_locks.py",
        "if not record.expired(now):",
        "if False:",
        ("tests/trees/test_seed_000_trees.py::test_seed000_11_nothing_is_stolen_before_it_has_expired",),
    )

    table.py      what a mutant is, and all of them
    seed_*.py     the mutants of each founding document
    workshop.py   a copy of the project with an interpreter of its own, to break and to run tests in
"""
