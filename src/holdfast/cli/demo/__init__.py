"""`holdfast demo`: a list of tasks, or the screens, with everything that can go wrong.

demo_command         which of the two demos is shown
demo_process         the folder of a demo, and its dispatcher
demo_words           how a demo speaks
demo_show            what a demo prints
demo_checks          who had which file when: checks that both demos share
demo_tasks           the demo of tasks; _stage, _agent, _story and _audit belong to it
demo_screens         the demo of screens; _stage, _agent, _story and _audit belong to it
"""
