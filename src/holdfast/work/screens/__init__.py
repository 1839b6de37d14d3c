"""Screens: two phases over a manifest, analysis and merge.

manifest            which screens there are, and what each reads
layout              where a screen's files are, and what each phase runs: `[work]`
phases              the phases, and the default prompts
templates           texts with placeholders
singular_names      the singular of a controller's name
screen_plan         the dependency graph: groups, shared reads, parallelism
findings            what an analysis must contain, and what is wrong with one that does not
pipeline            analyses every screen, then merges controller by controller
workflow_states     the states of a workflow, and its transitions
workflow_records    the state of each workflow, in the ledger
assignment          what a dispatcher was told to do, in the ledger
merged_findings     which findings were merged, so that no run applies one twice
run_report          what a run achieved
"""
