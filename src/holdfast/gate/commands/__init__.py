"""An agent's shell command, run below a broker, which leases each file at the write.

A client tells its hook which command an agent is about to run, and then runs it. The hook knows
which agent it is; the process that runs the command does not. So the hook leaves a *slip*, and the
program in front of the command claims it:

    Claude Code   runs every shell command through the program that CLAUDE_CODE_SHELL_PREFIX names,
                  with the whole line as its only argument. That is a small script of ours.
    Codex         runs the line with which the hook answers, which starts the same program.

The command then runs below a broker (`holdfast.gate.broker`) in the agent's name. A line without a
slip is not an agent's tool call: other hooks and lines that the person types run unchanged, and an
MCP server runs below a broker in the name of the session.

    hook_answers   the hook's answers before and after a command
    slips          the slip that the hook leaves, and how one process claims it
    shell_lines    which command a client's line runs
    codex_lines    the line that Codex runs in place of a command
    prefix_script  the script in front of Claude Code's shell commands
    prefixed       the program that both start: it finds the slip and runs the command
    agent_run      a command below a broker, in an agent's name
    inside_broker  the requests of git's hooks and other clients below that broker
    lease_mode     whether an agent's commands are leased, and why not

What this does not promise: two commands of one session with the same text may be swapped between
its agents. Commands that cannot run below a broker (`gate.lease_except`) are only watched, by
`holdfast.gate.guard`.

May import the gate and below, never cli. The modules that hooks import (`slips`, `lease_mode`)
import little.
"""
