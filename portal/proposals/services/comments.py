"""What people say about a proposal: plain text, never edited, never deleted."""

from datetime import datetime

from django.db import transaction

from portal.common.errors import Forbidden, Refused
from portal.common.services import audit_record
from portal.common.units import whole_second
from portal.projects.models import User
from portal.proposals.models import Comment, Proposal
from portal.proposals.selectors import may_comment, proposal_visible
from portal.proposals.services.requests import TEXT_LENGTH_MAX, text_errors


@transaction.atomic
def comment_add(*, proposal: Proposal, text: str, author: User, now: datetime) -> Comment:
    """Add to the debate; also after the decision. The same words by the same person twice in a row are one comment."""
    proposal = proposal_visible(user=author, proposal_id=proposal.pk)
    if not may_comment(user=author, proposal=proposal):
        raise Forbidden(f"Members and leads of {proposal.parent.path} comment, and leads of the projects below it.")
    if errors := text_errors("text", text, TEXT_LENGTH_MAX, "Write what you want to say."):
        raise Refused.many(errors)
    Proposal.objects.select_for_update(of=("self",)).get(pk=proposal.pk)
    last = proposal.comments.order_by("-pk").first()
    if last is not None and (last.author_id, last.text) == (author.pk, text.strip()):
        return last
    comment = Comment.objects.create(proposal=proposal, author=author, text=text.strip(), at=whole_second(now))
    audit_record(
        actor=author,
        action="proposal_comment",
        target=proposal,
        before={},
        after={"comment": comment.pk, "text": comment.text[:500]},
        now=now,
    )
    return comment
