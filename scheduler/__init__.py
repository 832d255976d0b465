"""The scheduling core: facts in, orders out. Pure: standard library and numpy only."""
