"""`holdfast demo`: a list of tasks, or the screens, with everything that can go wrong.

demo_command           which of the two demos is shown
demo_process           the folder of a demo, and its dispatcher
demo_show              what a demo prints
demo_words             its titles, sentences and news
demo_checks            which agent had which file when: the checks of both demos
demo_tasks             the demo of tasks
demo_tasks_stage       its shop, and its list
demo_tasks_agent       its scripted agent
demo_tasks_story       its events, as they are told
demo_tasks_audit       whether it was true
demo_screens           the demo of screens
demo_screens_stage     its shop, and its manifest
demo_screens_agent     its scripted agent
demo_screens_story     its events, as they are told
demo_screens_audit     whether it was true
"""
