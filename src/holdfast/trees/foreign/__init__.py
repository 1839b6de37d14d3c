"""Repositories of other programs: recognised, kept apart, and imported.

format_numbers    whose repository a `.jvs` is, and the number that keeps others out of ours
jvs_repository    repositories of jvs, read and never written
jvs_import        imports their snapshots
"""
