"""A dress rehearsal: a preset's whole run on this machine, with everything real but the size.

shrink       what is smaller in a rehearsal than in the run, and nothing else
pod          as many processes as the run has hosts, on virtual devices
rehearsal    the stages: start, stop, resume, evaluate, save, export
"""
