"""The runner's side of a sandbox, outside of it.

ledger_socket    the socket on which the runner answers processes inside
scratch_folder   the scratch folder, and cleaning up after a killed runner
runner_folders   both, for a runner that starts one command after the other
"""
