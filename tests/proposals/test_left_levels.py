"""A project that leaves a level under debate: who sees that level alone doesn't learn where it went."""

import pytest
from django.test import Client

from portal.common.errors import Refused
from portal.projects.services import project_change
from portal.proposals.models import Proposal
from portal.proposals.rows import proposal_row
from portal.proposals.selectors import lines_kept
from portal.proposals.services.proposals import proposal_create, proposal_edit, proposal_open
from portal.scheduling.project_tree import project_move
from tests.factories import project_make
from tests.proposals.scene import NOW, Scene

pytestmark = pytest.mark.django_db


@pytest.fixture
def proposal(scene: Scene) -> Proposal:
    """nils proposes 40 % of nlp for chat, which then leaves for lab/vision and is called covert there."""
    chat = project_make("lab/nlp/chat")
    proposal = proposal_create(
        cluster=scene.cluster,
        parent=scene.nlp,
        base_version=0,
        title="Chat",
        reason="It talks.",
        lines=[(chat, 400_000, None)],
        author=scene.nils,
        effective_at=None,
        now=NOW,
    )
    project_move(project=chat, parent=scene.vision, actor=None, now=NOW)
    project_change(project=chat, slug="covert", name="Covert", actor=None, now=NOW)
    return proposal


def test_the_proposal_names_it_as_it_was_called(scene: Scene, proposal: Proposal) -> None:
    row = proposal_row(proposal=proposal, user=scene.nils, now=NOW)
    assert [child["project"] for child in row["children"]] == ["lab/nlp/chat"]
    assert "overt" not in str(row)


def test_that_it_has_left_is_refused_under_its_old_name(scene: Scene, proposal: Proposal) -> None:
    def edit() -> None:
        lines = lines_kept(proposal=proposal)
        proposal_edit(
            proposal=proposal, title="T", reason="R", lines=lines, actor=scene.nils, effective_at=None, now=NOW
        )

    for act in (edit, lambda: proposal_open(proposal=proposal, actor=scene.nils, now=NOW)):
        with pytest.raises(Refused, match="^lab/nlp/chat is no child of lab/nlp"):
            act()


@pytest.mark.parametrize("address", ["/proposals/", "/proposals/{}/", "/proposals/{}/edit/", "/proposals/{}/rebase/"])
def test_no_page_of_it_says_the_new_name(scene: Scene, proposal: Proposal, client: Client, address: str) -> None:
    client.force_login(scene.nils)
    page = client.get(address.format(proposal.pk))
    assert page.status_code in (200, 302)
    assert "overt" not in page.content.decode()
