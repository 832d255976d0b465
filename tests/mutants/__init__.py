"""The ways in which `tests.mutations` breaks R1 to R16, and the test files that should see each."""

from tests.mutants import r01_r08, r09_r16

MUTANTS = (*r01_r08.MUTANTS, *r09_r16.MUTANTS)
