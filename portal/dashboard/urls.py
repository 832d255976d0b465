"""Addresses of the pages. Each page's name is also what the navigation at the left looks for."""

from django.urls import path

from portal.dashboard import views_account

app_name = "dashboard"
urlpatterns = [
    path("account/", views_account.account, name="account"),
    path("account/tokens/<int:token_id>/revoke/", views_account.token_end, name="token_end"),
]
