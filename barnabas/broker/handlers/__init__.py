"""One file per API: authorise, delegate, respond. `registry` says what is served, at which versions."""
