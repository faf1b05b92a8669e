"""The cluster's memory: a replayed metadata log, the image it adds up to, and the controller that writes it."""
