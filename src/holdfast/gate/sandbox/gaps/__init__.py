"""Gaps: writes that a process inside wanted and may not do.

denied_writes   which of the reported calls Landlock refused, and which path is the gap
temp_names      names of new files with which a tool is about to replace another file
gap_records     the records in the ledger
"""
