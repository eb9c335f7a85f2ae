"""Block-sparse arithmetic: the fast loops, and the slow dense twin that defines what they compute."""
