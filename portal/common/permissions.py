"""Who may do what (SPEC.md section 4): the least role that each action on a project asks for."""

ROLE_RANK = {"viewer": 1, "member": 2, "lead": 3}

ACTION_ROLE = {
    "view": "viewer",
    "submit": "member",
    "cancel_any": "lead",
    "budgets_edit": "lead",
    "project_edit": "lead",
}

ACTION_WORDS = {
    "view": "see",
    "submit": "submit workloads to",
    "cancel_any": "cancel other people's workloads in",
    "budgets_edit": "set the budgets below",
    "project_edit": "change",
}


def role_covers(role: str | None, action: str) -> bool:
    """Whether a role on the project is enough for the action; an unknown action is a fault of the caller."""
    return ROLE_RANK.get(role or "", 0) >= ROLE_RANK[ACTION_ROLE[action]]
