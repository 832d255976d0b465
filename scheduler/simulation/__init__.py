"""The simulator: an event loop in simulated time over the decisions that run live. Arrays in, a report out."""
