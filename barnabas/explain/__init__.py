"""Walks through the inside, played on the real core under a clock of their own: `barnabas explain`.

What a walk prints is read from the watch lists, the logs and the metrics after each step; nothing of it is drawn by
hand. `telling` is its form, `stage` the broker it plays on, and each other file one walk.
"""
