"""The tables of commands of one kind, a module a family, read when its first word is typed.

A family's functions live in a module of `holdfast.cli` that its table names; `spec lock` is run by
the function `lock` there, `tree lock acquire` by `lock_acquire`.
"""
