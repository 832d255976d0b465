"""The states of requests and proposals, and every step between them. What stands in no table can't be done.

Who may take a step: `lead` is a lead of the project that asks (a draft is its author's alone), `manager` a lead of the
parent whose level is divided, `consequence` follows from another step and is nobody's own act.
"""

from dataclasses import dataclass

from portal.common.errors import Conflict, Refused

DRAFT, SUBMITTED, TAKEN_UP = "draft", "submitted", "taken_up"
GRANTED, DECLINED, WITHDRAWN = "granted", "declined", "withdrawn"
OPEN, STALE, APPROVED, REJECTED = "open", "stale", "approved", "rejected"

LEAD, MANAGER, CONSEQUENCE = "lead", "manager", "consequence"


@dataclass(frozen=True)
class Step:
    """One thing that can be done: from which states, to which, by whom, and whether it needs a reason.

    `target` None leaves the state as it is.
    """

    action: str
    sources: tuple[str, ...]
    target: str | None
    who: str
    needs_reason: bool = False
    done: str = ""
    """How people say that it was done: `approved`."""


REQUEST_STEPS = {
    step.action: step
    for step in (
        Step("edit", (DRAFT,), None, LEAD, done="edited"),
        Step("submit", (DRAFT,), SUBMITTED, LEAD, done="submitted"),
        Step("withdraw", (DRAFT, SUBMITTED, TAKEN_UP), WITHDRAWN, LEAD, done="withdrawn"),
        Step("decline", (SUBMITTED,), DECLINED, MANAGER, needs_reason=True, done="declined"),
        Step("adopt", (SUBMITTED, TAKEN_UP), TAKEN_UP, CONSEQUENCE, done="taken up"),
        Step("release", (TAKEN_UP,), SUBMITTED, CONSEQUENCE, done="released"),
        Step("grant", (TAKEN_UP,), GRANTED, CONSEQUENCE, done="granted"),
    )
}

PROPOSAL_STEPS = {
    step.action: step
    for step in (
        Step("edit", (DRAFT,), None, MANAGER, done="edited"),
        Step("open", (DRAFT,), OPEN, MANAGER, done="opened"),
        Step("revise", (OPEN, STALE), DRAFT, MANAGER, done="taken back to draft"),
        Step("outdate", (OPEN,), STALE, CONSEQUENCE, done="made stale"),
        Step("rebase_draft", (DRAFT,), None, MANAGER, done="rebased"),
        Step("rebase", (OPEN, STALE), OPEN, MANAGER, done="rebased"),
        Step("simulate", (DRAFT, OPEN, STALE), None, MANAGER, done="simulated"),
        Step("approve", (OPEN,), APPROVED, MANAGER, needs_reason=True, done="approved"),
        Step("reject", (OPEN, STALE), REJECTED, MANAGER, needs_reason=True, done="rejected"),
        Step("withdraw", (DRAFT, OPEN, STALE), WITHDRAWN, MANAGER, done="withdrawn"),
    )
}

LIVE_STATES = (DRAFT, OPEN, STALE)
"""States of a proposal that is not decided."""

STATE_WORDS = {
    DRAFT: "a draft",
    SUBMITTED: "submitted",
    TAKEN_UP: "taken up in a proposal",
    GRANTED: "granted",
    DECLINED: "declined",
    WITHDRAWN: "withdrawn",
    OPEN: "open",
    STALE: "stale",
    APPROVED: "approved",
    REJECTED: "rejected",
}


class WrongState(Conflict):
    """409: not in a state in which that can be done."""


def step_of(steps: dict[str, Step], action: str, state: str, *, reason: str = "", what: str) -> Step | None:
    """The step, if it can be taken from this state; None if it has been taken already.

    Refused: a reason is missing. WrongState: it can't be done from here.
    """
    step = steps[action]
    if state in step.sources:
        if step.needs_reason and not reason.strip():
            raise Refused(f"Give the reason: it stands beside the {what}.", attr="reason", code="required")
        return step
    if step.target == state:
        return None
    sources = " or ".join(STATE_WORDS[source] for source in step.sources)
    sentence = f"This {what} is {STATE_WORDS[state]}; only what is {sources} can be {step.done}."
    raise WrongState(sentence, attr="state", code="wrong_state")
