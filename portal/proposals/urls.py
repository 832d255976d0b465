"""Addresses of requests and proposals in the API."""

from django.urls import path

from portal.proposals.apis import decisions, proposals, requests

urlpatterns = [
    path("requests/", requests.RequestList.as_view()),
    path("requests/<int:pk>/", requests.RequestDetail.as_view()),
    path("requests/<int:pk>/submit/", requests.RequestSubmit.as_view()),
    path("requests/<int:pk>/withdraw/", requests.RequestWithdraw.as_view()),
    path("requests/<int:pk>/decline/", requests.RequestDecline.as_view()),
    path("proposals/", proposals.ProposalList.as_view()),
    path("proposals/<int:pk>/", proposals.ProposalDetail.as_view()),
    path("proposals/<int:pk>/open/", decisions.ProposalOpen.as_view()),
    path("proposals/<int:pk>/revise/", decisions.ProposalRevise.as_view()),
    path("proposals/<int:pk>/rebase/", proposals.ProposalRebase.as_view()),
    path("proposals/<int:pk>/approve/", decisions.ProposalApprove.as_view()),
    path("proposals/<int:pk>/reject/", decisions.ProposalReject.as_view()),
    path("proposals/<int:pk>/withdraw/", decisions.ProposalWithdraw.as_view()),
    path("proposals/<int:pk>/comment/", decisions.ProposalComment.as_view()),
    path("proposals/<int:pk>/simulate/", decisions.ProposalSimulate.as_view()),
]
