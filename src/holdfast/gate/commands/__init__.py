"""An agent's shell command, below a broker: what was detected after the command is prevented.

A client tells its hook which command an agent is about to run, and then runs it. The hook knows
which agent it is; the process that runs the command does not. So the hook leaves a *slip*, and the
program that stands in front of the command claims it:

    Claude Code   runs every shell command through the program that CLAUDE_CODE_SHELL_PREFIX names,
                  with the whole line as its one argument. That is a small script of ours.
    Codex         runs the line that the hook answers with, which starts the same program.

The command then runs below a broker (`holdfast.gate.broker`) in the agent's name. A line without a
slip is not an agent's tool call: the hooks of others and lines that the person types run unchanged,
and an MCP server runs below a broker as the session's.

    around         what the hook says before a command, and after it
    slips          what the hook leaves, and how one process claims it
    shell_lines    which command a client's line runs
    codex_lines    the line that Codex runs in place of a command
    prefix_script  the script that stands in front of Claude Code's shell commands
    prefixed       the program that both start: whose command is it, and how is it run
    agent_run      a command below a broker, in an agent's name
    below          what git's hooks and other clients below that broker may ask
    in_force       whether an agent's commands are leased, and why not

What this does not promise: two commands of one session with the same text may be swapped between
its agents. Commands that need what no broker can give (`gate.lease_except`) are only watched, by
`holdfast.gate.guard`.

May import the gate and below, never cli. What hooks import (`slips`, `in_force`) imports little.
"""
