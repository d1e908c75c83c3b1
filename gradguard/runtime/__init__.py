"""The half that watches a run: sense, judge, diagnose, explain.

Nothing here imports libcst, rich or click, and torch only when the watched program has done so.
"""
