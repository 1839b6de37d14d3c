"""What common programs write, judged by their arguments.

program_table   which module knows which program, and which programs write nothing
operands        options and operands of a command
builtins        the shell's own commands, and programs that run another command
editors         programs that change files in place, or write where an option says
file_tools      programs that create, move and remove files
git_verbs       git: verbs that write files they name, and verbs that may change any file
patch_tools     patches: which files they change
sed_and_awk     what a sed or awk program writes by itself
"""
