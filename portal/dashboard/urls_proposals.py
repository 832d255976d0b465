"""Addresses of the pages of requests and proposals."""

from django.urls import path

from portal.dashboard import views_proposal_forms, views_proposals, views_requests

urlpatterns = [
    path("proposals/", views_proposals.proposals, name="proposals"),
    path("proposals/new/", views_proposal_forms.proposal_new, name="proposal_new"),
    path("proposals/requests/", views_requests.requests, name="requests"),
    path("proposals/requests/new/", views_requests.request_new, name="request_new"),
    path("proposals/requests/<int:request_id>/", views_requests.request_detail, name="request"),
    path("proposals/requests/<int:request_id>/edit/", views_requests.request_edited, name="request_edit"),
    path("proposals/requests/<int:request_id>/submit/", views_requests.request_submitted, name="request_submit"),
    path("proposals/requests/<int:request_id>/withdraw/", views_requests.request_withdrawn, name="request_withdraw"),
    path("proposals/requests/<int:request_id>/decline/", views_requests.request_declined, name="request_decline"),
    path("proposals/<int:proposal_id>/", views_proposals.proposal, name="proposal"),
    path("proposals/<int:proposal_id>/edit/", views_proposal_forms.proposal_edited, name="proposal_edit"),
    path("proposals/<int:proposal_id>/rebase/", views_proposal_forms.proposal_rebased, name="proposal_rebase"),
    path("proposals/<int:proposal_id>/open/", views_proposals.proposal_opened, name="proposal_open"),
    path("proposals/<int:proposal_id>/revise/", views_proposals.proposal_revised, name="proposal_revise"),
    path("proposals/<int:proposal_id>/approve/", views_proposals.proposal_approved, name="proposal_approve"),
    path("proposals/<int:proposal_id>/reject/", views_proposals.proposal_rejected, name="proposal_reject"),
    path("proposals/<int:proposal_id>/withdraw/", views_proposals.proposal_withdrawn, name="proposal_withdraw"),
    path("proposals/<int:proposal_id>/comment/", views_proposals.proposal_commented, name="proposal_comment"),
    path("proposals/<int:proposal_id>/simulate/", views_proposals.proposal_simulated, name="proposal_simulate"),
]
